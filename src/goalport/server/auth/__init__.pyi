from goalport.server.auth.access import (
    Access as Access,
    Principal as Principal,
    current_caller as current_caller,
    current_principal as current_principal,
)
from goalport.server.auth.authentication import (
    Authentication as Authentication,
)
from goalport.server.auth.challenges import (
    Challenges as Challenges,
)
from goalport.server.auth.guard import (
    AuthGuard as AuthGuard,
)
from goalport.server.auth.verifiers import (
    Grant as Grant,
    InvalidToken as InvalidToken,
    Verifier as Verifier,
    VerifierUnavailable as VerifierUnavailable,
)
