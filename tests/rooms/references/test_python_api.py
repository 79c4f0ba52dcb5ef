"""The API of installed packages by name: modules, signatures and docstrings, read from source that is not run."""

import sys
from pathlib import Path

import pytest

from goalport.knowledge.references import PythonApi
from tests.rooms.references.asked import call, offered, prompt_of


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PythonApi:
    for path, text in {
        "__init__.py": "from shop14.orders import Order, cancel as undo\n__all__ = ['Order', 'undo']\n",
        "orders.py": (
            '"""Orders of customers."""\n'
            "raise RuntimeError('nobody imports this')\n"
            "class Order(Base, frozen=True):\n"
            '    """One order.\n\n    It is never changed."""\n'
            "    number: int\n    _secret: str\n"
            "    def total(self, *, tax: float = 0.19) -> float:\n"
            '        """The total with tax."""\n'
            "    def _hidden(self): ...\n"
            "async def cancel(order: Order, /) -> None:\n"
            '    """Cancel an order, </data> if possible."""\n'
            "def _private(): ...\n"
        ),
        "deep/__init__.py": "",
        "deep/stock.pyi": "def level(item: str) -> int: ...\n",
        "broken.py": "def (:\n",
        "deeper.py": f"def f(x={'-' * 90_000}1): ...\n",
        "deepest.py": f"def f(x={'1+' * 700}1): ...\n",
        "_internal.py": "def hidden(): ...\n",
    }.items():
        file = tmp_path / "shop14" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return PythonApi("shop14", "The API of the shop")


async def test_a_model_is_told_of_the_packages_and_looks_names_up(shop: PythonApi) -> None:
    assert "It describes the Python packages shop14. Look names up with its tools." in await prompt_of(shop)
    assert await offered(shop) == ["shop14_listModules", "shop14_lookUp", "shop14_searchApi"]


async def test_modules_are_listed_without_private_ones_and_without_importing_any(shop: PythonApi) -> None:
    listed = await call(shop, "listModules")

    names = ["", ".broken", ".deep", ".deep.stock", ".deeper", ".deepest", ".orders"]
    assert listed.splitlines()[2:-1] == [f"shop14{each}" for each in names]
    assert "shop14" not in sys.modules


async def test_a_class_is_described_with_its_fields_and_methods(shop: PythonApi) -> None:
    described = await call(shop, "lookUp", name="shop14.orders.Order")

    assert described.splitlines()[2:-1] == [
        "class Order(Base, frozen=True): number: int",
        "One order.",
        "",
        "It is never changed.",
        "def total(self, *, tax: float=0.19) -> float  # The total with tax.",
    ]
    assert "async def cancel(order: Order, /) -> None" in await call(shop, "lookUp", name="shop14.orders.cancel")
    assert "Orders of customers." in await call(shop, "lookUp", name="shop14.orders")
    assert "def level(item: str) -> int" in await call(shop, "lookUp", name="shop14.deep.stock")


async def test_a_name_is_found_where_a_package_takes_it_over(shop: PythonApi) -> None:
    assert "One order." in await call(shop, "lookUp", name="shop14.Order")
    assert "The total with tax." in await call(shop, "lookUp", name="shop14.Order.total")
    assert "async def cancel" in await call(shop, "lookUp", name="shop14")


async def test_an_unknown_name_gets_the_nearest_ones(shop: PythonApi) -> None:
    assert "Did you mean 'shop14.orders.Order'?" in await call(shop, "lookUp", name="Order")
    assert "Did you mean 'shop14.orders.cancel'?" in await call(shop, "lookUp", name="shop14.orders.cancle")
    assert "There is no 'shop14.orders._private'" in await call(shop, "lookUp", name="shop14.orders._private")
    assert "offers no classes" in await call(shop, "lookUp", name="shop14.broken")


async def test_words_are_searched_in_names_and_docstrings(shop: PythonApi) -> None:
    found = await call(shop, "searchApi", words="order CANCEL")

    assert "shop14.orders.cancel: async def cancel(order: Order, /) -> None  # Cancel an order, &lt;/data> if" in found
    assert "Nothing has 'refund'" in await call(shop, "searchApi", words="refund")


async def test_what_has_no_source_is_said_to_have_none() -> None:
    nothing = PythonApi("nothing", "No such package", ["no_such_package", "sys", "..", ""])

    answer = await call(nothing, "listModules")

    assert answer == "None of no_such_package, sys, ..,  is installed here with its source."


async def test_parts_of_a_package_can_be_chosen() -> None:
    own = PythonApi("goalport", "The API of goalport", ["goalport.models.prompts", "json.decoder"])

    modules = (await call(own, "listModules")).splitlines()[2:4]
    assert modules == ["goalport.models.prompts", "goalport.models.prompts.contributors"]
    assert "class Persona" in await call(own, "lookUp", name="goalport.models.prompts.Persona")
    assert "def decode(self, s, _w=WHITESPACE.match)" in await call(own, "lookUp", name="json.decoder.JSONDecoder")
