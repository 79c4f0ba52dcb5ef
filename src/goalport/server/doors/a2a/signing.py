"""The key that signs agent cards, by which others can see whom they come from."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalport.base.errors import SettingsError
from goalport.workspace.settings import Settings


@dataclass(frozen=True, slots=True)
class CardKey:
    """A private key, and the public one as a JSON Web Key."""

    pem: bytes = field(repr=False)
    public: dict[str, Any]

    @classmethod
    def of(cls, settings: Settings) -> "CardKey | None":
        """The key that the settings name, if any. Raises `SettingsError` for one that cannot be used."""
        if not settings.a2a_signing_key:
            return None
        path = settings.workspace / Path(settings.a2a_signing_key).expanduser()
        try:
            pem = path.read_bytes()
            jwk = _public(pem)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                f"a2a_signing_key: expected a file with a private key (RSA, EC P-256 or Ed25519) in PEM, without a"
                f" password, at {path}, but it cannot be used: {error}"
            ) from None
        kid = sha256(json.dumps(jwk, sort_keys=True).encode()).hexdigest()[:16]
        return cls(pem, {**jwk, "kid": kid, "use": "sig"})


def _public(pem: bytes) -> dict[str, Any]:
    """The public key, and the algorithm. Raises `ValueError` and `TypeError`."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

    match load_pem_private_key(pem, None).public_key():
        case EllipticCurvePublicKey() as key if key.curve.name == "secp256r1":
            return {**ECAlgorithm.to_jwk(key, as_dict=True), "alg": "ES256"}
        case Ed25519PublicKey() as key:
            return {**OKPAlgorithm.to_jwk(key, as_dict=True), "alg": "EdDSA"}
        case RSAPublicKey() as key:
            return {**RSAAlgorithm.to_jwk(key, as_dict=True), "alg": "RS256"}
        case key:
            raise ValueError(f"a key of another kind ({type(key).__name__})")
