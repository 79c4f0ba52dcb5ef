"""What the doors over HTTP have in common: requests and their bodies, admission, refusals and event streams.

It knows no door's paths and no protocol: a door says in its `HttpDoor` how it is named and how its refusals look.
Below: publish and auth. Above: the doors, and the site for its own refusals.
"""

from goalport.server.web.endpoint import (
    AnswerStream,
    Endpoint,
    EventStream,
    Handler,
    HttpDoor,
    OpenStreams,
    StartEndpoint,
    admitted,
    client_left,
)
from goalport.server.web.problems import Problem

__all__ = [
    "AnswerStream",
    "Endpoint",
    "EventStream",
    "Handler",
    "HttpDoor",
    "OpenStreams",
    "Problem",
    "StartEndpoint",
    "admitted",
    "client_left",
]
