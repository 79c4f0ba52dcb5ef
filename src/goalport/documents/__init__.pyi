from goalport.documents.chunker import (
    Chunker as Chunker,
    ChunkerConfig as ChunkerConfig,
    ChunkTransformer as ChunkTransformer,
)
from goalport.documents.content import (
    Chunk as Chunk,
    ContainerSection as ContainerSection,
    ContentElement as ContentElement,
    ContentRoot as ContentRoot,
    LeafSection as LeafSection,
    NavigableDocument as NavigableDocument,
    Section as Section,
    element_id as element_id,
)
from goalport.documents.folder import (
    Folder as Folder,
    FolderLimits as FolderLimits,
    FoundLine as FoundLine,
)
from goalport.documents.github import (
    ArchiveLimits as ArchiveLimits,
    GitHubArchives as GitHubArchives,
    GitHubCopy as GitHubCopy,
    GitHubPlace as GitHubPlace,
)
from goalport.documents.html_text import (
    read_html as read_html,
)
from goalport.documents.limits import (
    ReadingLimits as ReadingLimits,
)
from goalport.documents.markdown import (
    read_markdown as read_markdown,
)
from goalport.documents.plain_text import (
    read_plain_text as read_plain_text,
)
from goalport.documents.reader import (
    DocumentReader as DocumentReader,
)
from goalport.documents.refresh import (
    Freshness as Freshness,
    RefreshPolicy as RefreshPolicy,
)
from goalport.documents.web import (
    WebContent as WebContent,
    WebFetcher as WebFetcher,
    WebLimits as WebLimits,
)
from goalport.documents.yaml_text import (
    YamlText as YamlText,
    read_yaml as read_yaml,
)
