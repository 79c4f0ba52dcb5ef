"""The values with which models are asked: options, images, usage."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from goalport.base.errors import BadInput
from goalport.models.llm import CustomModel, Image, LlmOptions, TokenUsage


def test_options_stand_in_a_file_of_settings() -> None:
    options = LlmOptions.model_validate_json('{"role": "best", "temperature": 0.9, "thinking": "low"}')
    assert options == LlmOptions(role="best", temperature=0.9, thinking="low")


def test_a_model_is_chosen_in_one_way() -> None:
    with pytest.raises(ValidationError, match="name the model once"):
        LlmOptions(model="gpt-4.1", role="best")


def test_another_choice_takes_the_place_of_the_one_before() -> None:
    options = LlmOptions(role="best", temperature=0.9)
    assert options.but(model="gpt-4.1") == LlmOptions(model="gpt-4.1", temperature=0.9)
    assert options.but(temperature=0.1) == LlmOptions(role="best", temperature=0.1)
    with pytest.raises(ValidationError):
        options.but(temperature=-1)


@pytest.mark.parametrize(
    ("name", "media_type"), [("a.png", "image/png"), ("b.JPG", "image/jpeg"), ("c.webp", "image/webp")]
)
def test_an_images_type_is_told_by_its_name(tmp_path: Path, name: str, media_type: str) -> None:
    (tmp_path / name).write_bytes(b"pixels")
    assert Image.from_path(tmp_path / name) == Image(media_type, b"pixels") == Image.from_bytes(name, b"pixels")


def test_an_image_whose_name_does_not_tell_wants_its_type() -> None:
    with pytest.raises(BadInput, match=r"Cannot tell what kind of image 'a\.raw' is.*Image\(media_type, data\)"):
        Image.from_bytes("a.raw", b"pixels")
    with pytest.raises(BadInput, match="media type of an image"):
        Image("text/plain", b"pixels")
    with pytest.raises(BadInput, match="has no bytes"):
        Image("image/png", b"")


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -1.0])
def test_what_is_no_amount_of_money_is_refused(amount: float) -> None:
    with pytest.raises(ValidationError, match="input"):
        CustomModel.model_validate({"name": "x", "prices": {"input": amount, "output": 1}})
    with pytest.raises(ValueError, match="cost"):
        TokenUsage(cost=amount)


def test_usage_adds_up() -> None:
    one = TokenUsage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cost=0.5)
    assert one + one == TokenUsage(input_tokens=2, output_tokens=4, cache_read_tokens=6, cost=1.0)
