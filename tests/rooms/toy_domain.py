"""What the agents of many tests take and give, each with one field. No test is in here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Draft:
    text: str


@dataclass(frozen=True)
class Horoscope:
    text: str


@dataclass(frozen=True)
class Invoice:
    text: str


@dataclass(frozen=True)
class Order:
    item: str


@dataclass(frozen=True)
class Parcel:
    text: str


@dataclass(frozen=True)
class Person:
    name: str


@dataclass(frozen=True)
class Receipt:
    text: str


@dataclass(frozen=True)
class Reply:
    text: str


@dataclass(frozen=True)
class Story:
    text: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Writeup:
    content: str
