"""The view of a publication that a caller gets: what its scopes let it list and use, and nothing else.

Every door shows and looks up what is published in the view of the caller, so what is not in it is unknown to that
caller everywhere: in lists, in the names that errors suggest, in completions. `auth`, above, knows the caller.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from goalport.base.caller import EVERY_SCOPE, Caller
from goalport.server.publish.own_resources import agent_uri
from goalport.server.publish.publication import Publication
from goalport.server.publish.scopes import Scopes

T = TypeVar("T")
_MOST: Final = 128
"""How many views are kept. Each is for one set of scopes, and callers of one kind have the same set."""


class Views:
    """The views of the current publication, made when first asked for and kept until there is another one."""

    def __init__(self) -> None:
        self._whole: Publication | None = None
        self._named = Scopes()
        self._views: dict[Scopes, Publication] = {}

    def of(self, whole: Publication, caller: Caller) -> Publication:
        """What this caller may list and use of a publication."""
        if whole is not self._whole:
            self._whole, self._named = whole, whole.scopes.named
            self._views.clear()
        granted = self._named if EVERY_SCOPE in caller.scopes else self._named & caller.scopes
        view = self._views.get(granted)
        if view is None:
            if len(self._views) >= _MOST:
                del self._views[next(iter(self._views))]
            view = self._views[granted] = _view(whole, granted)
        return view


def _view(whole: Publication, granted: Scopes) -> Publication:
    scopes = whole.scopes
    base = scopes.rules.read

    def kept(published: Mapping[str, T], needed: Mapping[str, Scopes]) -> dict[str, T]:
        return {name: each for name, each in published.items() if granted >= needed.get(name, base)}

    tools, prompts = kept(whole.tools, scopes.tools), kept(whole.prompts, scopes.prompts)
    templates = kept({each.uri_template: each for each in whole.template_list}, scopes.templates)
    view = replace(
        whole,
        granted=granted,
        tools=tools,
        of_groups=replace(whole.of_groups, absent=kept(whole.of_groups.absent, scopes.tools)),
        prompts=prompts,
        resources=kept(whole.resources, scopes.resources),
        providers=kept(whole.providers, scopes.providers),
        templates=tuple(each for each in whole.templates if each.template.uri_template in templates),
        tool_list=tuple(each for each in whole.tool_list if each.name in tools),
        prompt_list=tuple(each for each in whole.prompt_list if each.name in prompts),
        template_list=tuple(templates.values()),
    )
    hidden = {agent_uri(each.name) for each in whole.agents if not view.shows_agent(each)}
    resources = kept({each.uri: each for each in whole.resource_list}, scopes.resources)
    return replace(view, resource_list=tuple(each for uri, each in resources.items() if uri not in hidden))
