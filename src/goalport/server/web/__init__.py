"""What the doors over HTTP have in common: requests and their bodies, admission, refusals and event streams.

It knows no door's paths and no protocol: a door says in its `HttpDoor` how it is named and how its refusals look.
Below: publish and auth. Above: the doors, and the site for its own refusals.
"""
