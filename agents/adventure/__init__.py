"""A short text adventure without a model: `play_adventure` over MCP, one choice after another, asked of a person.

`places` is the map, `visit` what the visitor has with them, `endings` how it may end.
"""

from .agent import NightAtTheMuseum

night_at_the_museum = NightAtTheMuseum()
