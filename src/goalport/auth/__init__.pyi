from goalport.auth.access import (
    Access as Access,
)
from goalport.auth.authentication import (
    Authentication as Authentication,
)
from goalport.auth.challenges import (
    Challenges as Challenges,
)
from goalport.auth.current import (
    Principal as Principal,
    current_caller as current_caller,
    current_principal as current_principal,
)
from goalport.auth.guard import (
    AuthGuard as AuthGuard,
)
from goalport.auth.verifiers import (
    Grant as Grant,
    InvalidToken as InvalidToken,
    Verifier as Verifier,
    VerifierUnavailable as VerifierUnavailable,
)
