"""Fetching from the web: bounded, checked at each redirect, and never from this network unless it is allowed."""

import gzip
from collections.abc import Generator, Sequence
from pathlib import Path

import httpx2
import pytest

from goalport.base.errors import DocumentError
from goalport.knowledge.documents import WebFetcher, WebLimits
from tests.rooms.documents.loopback import Page, Site, certificate_for, serving


@pytest.fixture
def site() -> Generator[Site]:
    with serving() as found:
        yield found


async def test_a_page_comes_with_its_type_its_charset_and_the_address_where_it_was_found(site: Site) -> None:
    site.text("/there", "Grüße", "Text/HTML; charset=UTF-8")
    url = site.redirect("/here", "/there")

    page = await WebFetcher(allow=[site.host]).fetch(url)

    assert (page.text, page.media_type, page.uri) == ("Grüße", "text/html", f"{site.address}/there")


@pytest.mark.parametrize(
    ("content", "media_type", "text"),
    [
        ("Grüße".encode("latin-1"), "text/plain; charset=iso-8859-1", "Grüße"),
        ("\ufeffGrüße".encode(), "text/plain", "Grüße"),
        ("Grüße".encode("utf-16"), "text/plain", "Grüße"),
        (b"a\xffb", "text/plain", "a\ufffdb"),
        (b"ab", "text/plain; charset=klingon", "ab"),
        (b"6162", "text/plain; charset=hex", "6162"),
    ],
)
async def test_text_is_read_in_the_charset_that_is_declared(
    site: Site, content: bytes, media_type: str, text: str
) -> None:
    site.pages["/"] = Page(content, headers={"content-type": media_type})

    assert (await WebFetcher(allow=[site.host]).fetch(f"{site.address}/")).text == text


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0.0.0.0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:0:7f00:1]/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        "http://224.0.0.1/",
    ],
)
async def test_an_address_that_is_not_public_is_not_connected_to(url: str) -> None:
    with pytest.raises(DocumentError, match="is not a public one"):
        await WebFetcher().fetch(url)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "data:text/plain,x", "http:///x", "x", ""],
)
async def test_only_http_and_https_are_fetched(url: str) -> None:
    with pytest.raises(DocumentError, match="only http:// and https:// addresses with a host are fetched"):
        await WebFetcher().fetch(url)


@pytest.mark.parametrize("url", ["http://[", "http://a b/", "http://x:99999999/", "http://exa\0mple.com/"])
async def test_what_is_no_address_is_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(DocumentError, match="could not be fetched"):
        await WebFetcher().fetch(url)


async def test_a_network_a_host_or_a_host_with_its_port_can_be_allowed(site: Site) -> None:
    url = site.text("/", "Hello")
    for allow in ("127.0.0.1", site.host, "127.0.0.0/8"):
        assert (await WebFetcher(allow=[allow]).fetch(url)).text == "Hello"
    for other in ("127.0.0.1:1", "10.0.0.0/8", "localhost"):
        with pytest.raises(DocumentError, match=r"allow '127\.0\.0\.1' or its network"):
            await WebFetcher(allow=[other]).fetch(url)


async def test_a_redirect_is_checked_as_the_first_address_was(site: Site) -> None:
    with serving() as secret:
        url = site.redirect("/", secret.text("/secret", "the password"))

        with pytest.raises(DocumentError, match="is not a public one"):
            await WebFetcher(allow=[site.host]).fetch(url)

        assert secret.requests == []
        with pytest.raises(DocumentError, match="only http"):
            await WebFetcher(allow=[site.host]).fetch(site.redirect("/file", "file:///etc/passwd"))


async def test_the_connection_goes_to_the_address_that_was_checked(site: Site) -> None:
    """A name that resolves to another address a moment later changes nothing: it is resolved once."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(f"{host}:{port}")
        return ["127.0.0.1"]

    port = site.host.partition(":")[2]
    site.text("/", "Hello")

    page = await WebFetcher(allow=["127.0.0.1/32"], resolve=resolve).fetch(f"http://docs.invalid:{port}/")

    assert page.text == "Hello"
    assert asked == [f"docs.invalid:{port}"]
    assert site.requests[0][1]["host"] == f"docs.invalid:{port}"


async def test_a_host_with_one_private_address_among_others_is_refused() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(DocumentError, match=r"10\.0\.0\.1 is not a public one"):
        await WebFetcher(resolve=resolve).fetch("https://example.com/")


async def test_redirects_end(site: Site) -> None:
    url = site.redirect("/", "/")

    with pytest.raises(DocumentError, match="redirects more than 3 times"):
        await WebFetcher(allow=[site.host], limits=WebLimits(redirects=3)).fetch(url)

    assert len(site.requests) == 4


async def test_headers_that_were_given_stay_at_their_host(site: Site) -> None:
    with serving() as other:
        url = site.redirect("/", other.text("/x", "Hello"))

        await WebFetcher(allow=[site.host, other.host]).fetch(url, headers={"authorization": "secret"})

        assert site.requests[0][1]["authorization"] == "secret"
        assert "authorization" not in other.requests[0][1]


async def test_what_is_too_long_is_refused_before_it_is_read_to_its_end(site: Site) -> None:
    site.pages["/"] = Page(b"x" * 100_001)
    fetcher = WebFetcher(allow=[site.host], limits=WebLimits(max_bytes=100_000))

    with pytest.raises(DocumentError, match="more than 100000 bytes"):
        await fetcher.fetch(f"{site.address}/")


async def test_compressed_content_counts_as_long_as_it_really_is(site: Site) -> None:
    fetcher = WebFetcher(allow=[site.host], limits=WebLimits(max_bytes=1_000_000))
    zipped = {"content-encoding": "gzip", "content-type": "text/plain"}
    site.pages["/good"] = Page(gzip.compress(b"Hello, ") + gzip.compress(b"world"), headers=zipped)
    site.pages["/bomb"] = Page(gzip.compress(b"\0" * 50_000_000), headers=zipped)
    site.pages["/broken"] = Page(b"no gzip", headers=zipped)
    site.pages["/short"] = Page(gzip.compress(b"Hello" * 1000)[:-9], headers=zipped)
    site.pages["/other"] = Page(b"x", headers={"content-encoding": "br"})

    assert (await fetcher.fetch(f"{site.address}/good")).text == "Hello, world"
    for path, words in {
        "/bomb": "more than 1000000 bytes",
        "/broken": "its compressed content is damaged",
        "/short": "its compressed content ends too early",
        "/other": "compressed as 'br', which was not asked for",
    }.items():
        with pytest.raises(DocumentError, match=words):
            await fetcher.fetch(site.address + path)


async def test_a_page_of_another_type_or_with_another_status_is_refused(site: Site) -> None:
    fetcher = WebFetcher(allow=[site.host])
    site.text("/image", "x", "image/png")
    site.text("/plain", "x", "text/plain")

    assert (await fetcher.fetch(f"{site.address}/plain", media_types=["text/", "application/json"])).text == "x"
    with pytest.raises(DocumentError, match="it is of type image/png, not text/, application/json"):
        await fetcher.fetch(f"{site.address}/image", media_types=["text/", "application/json"])
    with pytest.raises(DocumentError, match="the server answers 404 Not Found"):
        await fetcher.fetch(f"{site.address}/nothing")


async def test_a_server_that_does_not_answer_costs_the_time_of_the_limit_only(site: Site) -> None:
    site.pages["/"] = Page(b"x", headers={"content-length": "10"})

    with pytest.raises(DocumentError, match="could not be fetched"):
        await WebFetcher(allow=[site.host], limits=WebLimits(seconds=0.3)).fetch(f"{site.address}/")


async def test_a_host_that_is_not_known_is_said_to_be_so() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("Name or service not known")

    with pytest.raises(DocumentError, match=r"the host 'nowhere\.invalid' cannot be found"):
        await WebFetcher(resolve=resolve).fetch("https://nowhere.invalid/")


async def test_a_certificate_is_checked_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    for_server, for_client = certificate_for("docs.invalid", tmp_path)
    with serving(for_server) as site:
        site.text("/", "Hello")
        port = site.host.partition(":")[2]
        fetcher = WebFetcher(
            allow=["127.0.0.0/8"],
            resolve=resolve,
            transport=lambda: httpx2.AsyncHTTPTransport(verify=for_client, trust_env=False),
        )

        assert (await fetcher.fetch(f"https://docs.invalid:{port}/")).text == "Hello"
        with pytest.raises(DocumentError, match="CERTIFICATE_VERIFY_FAILED"):
            await fetcher.fetch(f"https://other.invalid:{port}/")
        with pytest.raises(DocumentError, match="CERTIFICATE_VERIFY_FAILED"):  # nobody trusts it but this client
            await WebFetcher(allow=["127.0.0.0/8"], resolve=resolve).fetch(f"https://docs.invalid:{port}/")


async def test_a_password_in_an_address_is_neither_sent_nor_shown(site: Site) -> None:
    site.text("/", "Hello")
    url = f"http://ann:secret@{site.host}/"

    assert (await WebFetcher(allow=[site.host]).fetch(url)).uri == f"{site.address}/"
    assert "authorization" not in site.requests[0][1]
    with pytest.raises(DocumentError) as raised:
        await WebFetcher().fetch(url)
    assert "secret" not in str(raised.value)
