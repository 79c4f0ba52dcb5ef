"""The door of each protocol: routes and translations, which know no other door."""
