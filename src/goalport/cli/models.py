"""`goalport models`: the language models that agents may ask, their roles, and which settings they still lack.

No model is asked, and no provider's library is loaded. Below the program; platform and settings are below it.
"""

from collections.abc import Iterator
from pathlib import Path

from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import Format, Record, show
from goalport.cli.workspace import LoadedWorkspace, open_with_warnings
from goalport.llm import ModelCard, Prices


def models(*, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:  # noqa: A002 - the option's name
    """List the language models: provider, roles, price in US dollars per million tokens, and what is to be set.

    A model counts as ready when nothing is missing here; its provider is not asked.
    """
    loaded = open_with_warnings(workspace)
    show(list(_records(loaded)), format, none="There are no models.")


def _records(loaded: LoadedWorkspace) -> Iterator[Record]:
    settings, known = loaded.settings.models, loaded.platform.models
    names = [known.default, *settings.llms.values(), *(each.name for each in settings.custom)]
    cards = known.cards()
    by_name = {name: _card(name, cards) for name in dict.fromkeys(names)}
    further = {each.name: each for each in cards if each not in by_name.values()}
    for name, card in (by_name | further).items():
        unready = known.unready(name)
        roles = [role for role, model in settings.llms.items() if model == name]
        yield {
            "model": name,
            "provider": card.provider,
            "roles": [*(["default"] if name == known.default else []), *roles],
            "ready": not unready,
            "prices": _price(card.prices),
            "knowledge_cutoff": None if card.knowledge_cutoff is None else card.knowledge_cutoff.isoformat(),
            "to_do": unready,
        }


def _card(name: str, cards: tuple[ModelCard, ...]) -> ModelCard:
    """The card of a model, by its name with or without its provider in front."""
    fitting = (each for each in cards if name in {each.name, f"{each.provider}:{each.name}"})
    return next(fitting, ModelCard(name=name, provider=""))


def _price(prices: Prices | None) -> str | None:
    """The price that the settings give; None: the provider's list price, which is looked up when needed."""
    return None if prices is None else f"{prices.input:g} in, {prices.output:g} out"
