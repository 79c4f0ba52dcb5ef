from goalport.knowledge.documents.refresh import (
    RefreshPolicy as RefreshPolicy,
)
from goalport.knowledge.references.python_api import (
    PythonApi as PythonApi,
)
from goalport.knowledge.references.reference import (
    LlmReference as LlmReference,
    NamedReferences as NamedReferences,
    QuestionAware as QuestionAware,
    Reference as Reference,
    Refreshing as Refreshing,
    refreshed as refreshed,
)
from goalport.knowledge.references.reference_file import (
    LlmReferenceProvider as LlmReferenceProvider,
    LlmReferenceProviders as LlmReferenceProviders,
    contributors_from_yaml as contributors_from_yaml,
    references_from_yaml as references_from_yaml,
)
from goalport.knowledge.references.texts import (
    GitHubRepository as GitHubRepository,
    LocalDirectory as LocalDirectory,
    TextReference as TextReference,
    file_text as file_text,
    package_resource as package_resource,
    web_page as web_page,
)
