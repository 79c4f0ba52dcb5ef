"""The key that signs agent cards and notifications, by which others can see whom they come from."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalport.base.errors import SettingsError
from goalport.workspace.settings import Settings


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, and the public one as a JSON Web Key."""

    pem: bytes = field(repr=False)
    public: dict[str, Any]

    @classmethod
    def of(cls, settings: Settings) -> "SigningKey | None":
        """The key that the settings name, if any. Raises `SettingsError` for one that cannot be used."""
        if not settings.a2a_signing_key:
            return None
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

        path = settings.workspace / Path(settings.a2a_signing_key).expanduser()
        try:
            pem = path.read_bytes()
            match load_pem_private_key(pem, None).public_key():
                case EllipticCurvePublicKey() as key if key.curve.name == "secp256r1":
                    jwk = {**ECAlgorithm.to_jwk(key, as_dict=True), "alg": "ES256"}
                case Ed25519PublicKey() as key:
                    jwk = {**OKPAlgorithm.to_jwk(key, as_dict=True), "alg": "EdDSA"}
                case RSAPublicKey() as key:
                    jwk = {**RSAAlgorithm.to_jwk(key, as_dict=True), "alg": "RS256"}
                case key:
                    raise ValueError(f"a key of another kind ({type(key).__name__})")  # noqa: TRY301
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                f"a2a_signing_key: expected a file with a private key (RSA, EC P-256 or Ed25519) in PEM, without a"
                f" password, at {path}, but it cannot be used: {error}"
            ) from None
        kid = sha256(json.dumps(jwk, sort_keys=True).encode()).hexdigest()[:16]
        return cls(pem, {**jwk, "kid": kid, "use": "sig"})
