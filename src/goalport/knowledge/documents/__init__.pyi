from goalport.knowledge.documents.chunker import (
    Chunker as Chunker,
    ChunkerConfig as ChunkerConfig,
    ChunkTransformer as ChunkTransformer,
)
from goalport.knowledge.documents.content import (
    Chunk as Chunk,
    ContainerSection as ContainerSection,
    ContentElement as ContentElement,
    ContentRoot as ContentRoot,
    LeafSection as LeafSection,
    NavigableDocument as NavigableDocument,
    ReadingLimits as ReadingLimits,
    Section as Section,
    element_id as element_id,
    read_plain_text as read_plain_text,
)
from goalport.knowledge.documents.folder import (
    Folder as Folder,
    FolderLimits as FolderLimits,
    FoundLine as FoundLine,
)
from goalport.knowledge.documents.github import (
    ArchiveLimits as ArchiveLimits,
    GitHubArchives as GitHubArchives,
    GitHubCopy as GitHubCopy,
    GitHubPlace as GitHubPlace,
)
from goalport.knowledge.documents.html_text import (
    read_html as read_html,
)
from goalport.knowledge.documents.markdown import (
    YamlText as YamlText,
    read_markdown as read_markdown,
    read_yaml as read_yaml,
)
from goalport.knowledge.documents.reader import (
    DocumentReader as DocumentReader,
)
from goalport.knowledge.documents.refresh import (
    RefreshPolicy as RefreshPolicy,
)
from goalport.knowledge.documents.web import (
    WebContent as WebContent,
    WebFetcher as WebFetcher,
    WebLimits as WebLimits,
)
