"""What models cost, as a sum that grows."""

from dataclasses import dataclass

__all__ = ["Usage"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What models cost a process."""

    cost: float = 0.0
    """In US dollars."""
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            cost=self.cost + other.cost,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )
