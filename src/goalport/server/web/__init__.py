"""What the doors over HTTP have in common: requests and their bodies, admission, refusals and event streams.

It knows no door's paths and no protocol: the `HttpDoor` of a door has its name and the format of its refusals.
Below: publish and auth. Above: the doors, and the site for its own refusals.
"""
