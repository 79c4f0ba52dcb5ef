"""Templates: where they are found, what they may do, and how they fail."""

import os
from pathlib import Path
from time import process_time

import pytest
from pydantic import BaseModel

from goalport.base.errors import TemplateError, UnknownName
from goalport.models.prompts import Templates


class Person(BaseModel):
    name: str
    tags: list[str] = []


def _written(folder: Path, **templates: str) -> Templates:
    for name, text in templates.items():
        path = folder / f"{name.replace('__', '/')}.jinja"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return Templates(folder)


def test_a_template_is_filled_with_its_variables_and_nothing_is_escaped(tmp_path: Path) -> None:
    templates = _written(
        tmp_path,
        facts__all="# {{ person.name }} says <b>:\n{% for each in facts %}- {{ each }}\n{% endfor %}End",
    )
    text = templates.render("facts/all", {"person": Person(name="Ann & Bob"), "facts": ["a > b", "{{ c }}"]})
    assert text == "# Ann & Bob says <b>:\n- a > b\n- {{ c }}\nEnd"


def test_a_template_may_reckon(tmp_path: Path) -> None:
    templates = _written(
        tmp_path, sums="{{ '-' + 'x' * 3 }} {{ 1 + 2 }} {{ 5000 * 5000 }} {{ 2 ** 0.5 > 1 }} {{ 2 ** 10 }}"
    )
    assert templates.render("sums", {}) == "-xxx 3 25000000 True 1024"


def test_the_suffix_may_be_given_too(tmp_path: Path) -> None:
    assert _written(tmp_path, hello="Hi").render("hello.jinja", {}) == "Hi"


def test_the_first_folder_that_has_a_template_counts(tmp_path: Path) -> None:
    _written(tmp_path / "agent", hello="from the agent")
    _written(tmp_path / "prompts", hello="from the workspace", other="other")
    templates = Templates(tmp_path / "agent", tmp_path / "prompts", tmp_path / "missing")
    assert templates.render("hello", {}) == "from the agent"
    assert templates.render("other", {}) == "other"
    assert templates.names() == ("hello", "other")


def test_templates_include_extend_and_import_others_of_their_folders(tmp_path: Path) -> None:
    templates = _written(
        tmp_path,
        parts__head="Dear {{ name }},",
        macros="{% macro shout(x) %}{{ x | upper }}{% endmacro %}",
        base="{% block body %}{% endblock %}\nBye",
        letter='{% extends "base" %}{% import "macros.jinja" as m %}'
        '{% block body %}{% include "parts/head" %} {{ m.shout("hi") }}{% endblock %}',
    )
    assert templates.render("letter", {"name": "Ann"}) == "Dear Ann, HI\nBye"


def test_a_missing_variable_is_named_with_its_template_and_line(tmp_path: Path) -> None:
    templates = _written(tmp_path, outer='One\n{% include "deep/inner" %}', deep__inner="\n\n{{ assertions }}")
    with pytest.raises(TemplateError) as caught:
        templates.render("outer", {"words": 1, "facts": []})
    assert str(caught.value) == (
        "Template 'deep/inner', line 3: 'assertions' is undefined. The variables given are: facts, words."
    )
    assert (caught.value.template, caught.value.line) == ("deep/inner", 3)


def test_a_missing_attribute_is_named_too(tmp_path: Path) -> None:
    templates = _written(tmp_path, outer="{{ person.age }}")
    with pytest.raises(TemplateError, match=r"line 1: .*Person object' has no attribute 'age'"):
        templates.render("outer", {"person": Person(name="Ann")})


def test_a_variable_that_may_be_missing_is_asked_for_as_such(tmp_path: Path) -> None:
    templates = _written(tmp_path, outer="{{ a | default('none') }}{% if b is defined %}{{ b }}{% endif %}")
    assert templates.render("outer", {}) == "none"


def test_an_unknown_template_offers_the_nearest_names(tmp_path: Path) -> None:
    templates = _written(tmp_path, facts__consolidate="x", letter="y")
    with pytest.raises(UnknownName, match=r"Unknown template 'facts/consolidat'. Did you mean 'facts/consolidate'\?"):
        templates.render("facts/consolidat", {})
    with pytest.raises(UnknownName, match="There is no template at all"):
        Templates().render("x", {})


def test_an_unknown_included_template_is_told_with_who_wants_it(tmp_path: Path) -> None:
    templates = _written(tmp_path, letter='\n{% include "haed" %}', head="x")
    with pytest.raises(TemplateError, match=r"Template 'letter', line 2: it asks.*'haed'. Did you mean 'head'\?"):
        templates.render("letter", {})


def test_no_template_leaves_its_folders(tmp_path: Path) -> None:
    (tmp_path / "secret.jinja").write_text("secret")
    templates = _written(
        tmp_path / "prompts", up='{% include "../secret" %}', full=f'{{% include "{tmp_path}/secret" %}}'
    )
    (tmp_path / "prompts" / "link.jinja").symlink_to(tmp_path / "secret.jinja")
    for name in ("../secret", str(tmp_path / "secret"), "link"):
        with pytest.raises(UnknownName):
            templates.render(name, {})
    for name in ("up", "full"):
        with pytest.raises(TemplateError, match="it asks for another template"):
            templates.render(name, {})


@pytest.mark.parametrize(
    "hostile",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ person.__init__.__globals__ }}",
        "{{ person.tags.append(1) }}",
        "{{ range(10000000) | list }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ [].pop.__self__ }}",
        "{{ lipsum.__globals__ }}",
        "{{ 'a' * 100000000000 }}",
        "{{ 100000000000 * [1] }}",
        "{{ 9 ** (9 ** 9) }}",
        "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    ],
)
def test_a_hostile_template_gets_nothing_but_an_error(tmp_path: Path, hostile: str) -> None:
    templates = _written(tmp_path, hostile=hostile)
    with pytest.raises(TemplateError, match="Template 'hostile', line 1"):
        templates.render("hostile", {"person": Person(name="Ann")})


def test_a_text_that_would_hardly_end_is_given_up(tmp_path: Path) -> None:
    templates = _written(
        tmp_path, many="{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}"
    )
    with pytest.raises(TemplateError, match="Template 'many': the text would be longer than 10,000,000 characters"):
        templates.render("many", {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n{% if %}", "line 2: Expected an expression"),
        ("{{ 1 / 0 }}", "line 1: division by zero"),
        ("{{ 1 + name }}", "line 1: unsupported operand"),
        ('{% include "broken" %}', "includes itself"),
        ("{{ name | shout }}", "No filter named 'shout'"),
    ],
)
def test_a_broken_template_is_an_error_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    templates = _written(tmp_path, broken=text)
    with pytest.raises(TemplateError, match=says):
        templates.render("broken", {"name": "Ann"})


def test_a_template_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "image.jinja").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TemplateError, match=r"Template 'image'.*utf-8"):
        Templates(tmp_path).render("image", {})


def test_a_changed_template_is_read_anew(tmp_path: Path) -> None:
    templates = _written(tmp_path, hello="one")
    assert templates.render("hello", {}) == "one"
    _written(tmp_path, hello="two")
    os.utime(tmp_path / "hello.jinja", ns=(1, 1))
    assert templates.render("hello", {}) == "two"


@pytest.mark.parametrize(
    "text",
    [
        "{{ '%1000000000d' | format(1) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%.1000000000f' | format(1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 1000000000) }}",
        "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
        "{{ 'a' * 1000000000 }}",
        "{{ 1000000000 * [0] }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ 'a'.zfill(1000000000) }}",
        "{{ '\t'.expandtabs(1000000000) }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a' | center(width=1000000000) }}",
        "{{ 'a\nb' | indent(1000000000) }}",
        "{{ [1] | batch(1000000000, 0) | list }}",
        "{{ [1] | slice(1000000000) | list }}",
        "{{ 1 | round(1000000000, 'ceil') }}",
        "{{ [1] | tojson(indent=1000000000) }}",
        "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
        "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
        "{{ ('a' * 100000) | join('b' * 100000) }}",
        "{{ ('b' * 100000).join('a' * 100000) }}",
        "{{ range(1000000000) | list }}",
        "{% set all = namespace(a='a' * 1000000) %}{% for _ in range(40) %}{% set all.a = all.a ~ all.a %}{% endfor %}",
    ],
)
def test_nothing_in_a_template_makes_a_text_of_any_length(tmp_path: Path, text: str) -> None:
    (tmp_path / "wide.jinja").write_text(text)
    began = process_time()
    with pytest.raises(TemplateError, match=r"too large|too big|too wide|Range"):
        Templates(tmp_path).render("wide", {})
    assert process_time() - began < 2


def test_what_makes_texts_of_a_common_length_does_so(tmp_path: Path) -> None:
    usual = {
        "{{ '%08.3f|%s' % (1.5, 'x') }}": "0001.500|x",
        "{{ '%5d' | format(7) }}": "    7",
        "{{ '{:>5}|{b}'.format(7, b=1) }}": "    7|1",
        "{{ 'a'.center(5) }}{{ 'a' | center(5) }}": "  a    a  ",
        "{{ [1, 2, 3] | batch(2, 0) | list }}": "[[1, 2], [3, 0]]",
        "{{ ['a', 'b'] | join(', ') }}{{ '-'.join(['a', 'b']) }}": "a, ba-b",
        "{{ [people[0], people[1]] | join(', ', attribute='name') }}": "Ann, Bo",
        "{{ 'a' ~ 1 ~ 'b' }}": "a1b",
        "{{ 'aXb' | replace('X', '-') }}{{ 'aXb'.replace('X', '+', 1) }}": "a-ba+b",
        "{{ {'a': 5000000000} | tojson(indent=1) }}": '{\n "a": 5000000000\n}',
        "{{ '%d' % 5000000000 }}{{ 17 % 5 }}": "50000000002",
    }
    for number, (text, expected) in enumerate(usual.items()):
        (tmp_path / f"{number}.jinja").write_text(text)
        assert Templates(tmp_path).render(str(number), {"people": [{"name": "Ann"}, {"name": "Bo"}]}) == expected
