"""An authorization server for tests: oidc-provider (npm), which nobody here wrote, on a free port of loopback.

    with authorization_server("https://goalport.example/mcp") as provider:
        token = provider.service_token("goals:read")

`provider.sign_in` is a person at a browser, as the handlers of the SDK's `OAuthClientProvider` need one. `make clients`
installs it; without it the tests are skipped. No test is in here.
"""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2

from goalport import ActionContext, Export, UserInput, achieves_goal, agent
from tests.clients.conftest import needs
from tests.clients.running import CLIENTS, NODE_PACKAGES, started

__all__ = ["REDIRECT", "Answer", "AuthorizationServer", "Mirror", "authorization_server"]

REDIRECT = "http://127.0.0.1:9/callback"
"""Where the browser is sent at the end; nobody listens there, and `sign_in` reads the address."""
_READY = re.compile(r"authorization server ready on (?P<address>http://127\.0\.0\.1:\d+)")
_FORM = re.compile(r'action="(?P<action>[^"]+)"')


@dataclass
class Answer:
    content: str


@agent(description="Says who calls")
class Mirror:
    @achieves_goal(description="Who calls", export=Export(remote=True, name="who_am_i", read_only=True))
    async def tell(self, said: UserInput, context: ActionContext) -> Answer:
        return Answer(f"{context.caller.id} of {context.caller.issuer}")


@dataclass
class AuthorizationServer:
    """The server, and who uses it."""

    address: str
    resource: str
    signed_in: list[str] = field(default_factory=list[str])
    """The scopes that were asked for, at each sign-in."""

    def service_token(self, scope: str, resource: str | None = None) -> str:
        """An access token of the program `service`, which calls for itself."""
        form = {"grant_type": "client_credentials", "scope": scope, "resource": resource or self.resource}
        answer = httpx2.post(f"{self.address}/token", data=form, auth=("service", "service-secret"))
        return str(answer.raise_for_status().json()["access_token"])

    def revoke(self, token: str) -> None:
        """Revoke a token of that program."""
        form = {"token": token}
        httpx2.post(
            f"{self.address}/token/revocation", data=form, auth=("service", "service-secret")
        ).raise_for_status()

    def order(self, what: str) -> dict[str, int]:
        """Order `rotate`, `silence/1`, `silence/0` or `forget`; the value is how often each path was asked for."""
        return dict(httpx2.post(f"{self.address}/test/{what}").raise_for_status().json())

    async def sign_in(self, url: str, name: str = "anna", redirect: str = REDIRECT) -> dict[str, str]:
        """Sign in and consent at an address where a client sends a browser; the value is what comes back to it."""
        self.signed_in.append(parse_qs(urlsplit(url).query)["scope"][0])
        async with httpx2.AsyncClient(timeout=20) as browser:
            for _ in range(20):
                page = await browser.get(url)
                while page.is_redirect:
                    url = urljoin(url, page.headers["location"])
                    if url.startswith(redirect):
                        return {key: value for key, (value,) in parse_qs(urlsplit(url).query).items()}
                    page = await browser.get(url)
                form = _FORM.search(page.text)
                assert form is not None, page.text
                wanted = "consent" if 'value="consent"' in page.text else "login"
                said = {"prompt": wanted} | ({"login": name, "password": "any"} if wanted == "login" else {})
                answer = await browser.post(urljoin(url, form["action"]), data=said)
                url = urljoin(url, answer.headers["location"])
        raise AssertionError("the authorization server sent the browser in circles")


@contextmanager
def authorization_server(resource: str, opaque: str = "urn:opaque") -> Generator[AuthorizationServer]:
    """The server, whose access tokens are JWTs for `resource`, and opaque for the other one."""
    needs("The authorization server", CLIENTS / "node" / "package-lock.json", NODE_PACKAGES / ".prepared")
    node, script = NODE_PACKAGES / "node" / "bin" / "node", CLIENTS / "node" / "authorization.mjs"
    with started([str(node), str(script), resource, opaque], _READY, dict(os.environ)) as ready:
        yield AuthorizationServer(ready["address"], resource)
