"""What kind of thing a file is, judged by its name alone.

Pure: a table and one look-up. Nothing here opens a file; `reading` finds out about contents.
"""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What a language is for: only code and styling can be hot spots, and media are never read."""

    CODE = "code"
    PROSE = "prose"
    DATA = "data"
    MEDIA = "media"


class Language(NamedTuple):
    """A language, or another sort of file, and its kind."""

    name: str
    kind: Kind


OTHER = Language("Other", Kind.DATA)
LOCK = Language("Lock files", Kind.DATA)

_CODE = {
    "Assembly": "asm s",
    "Astro": "astro",
    "C": "c h",
    "C#": "cs csx",
    "C++": "cc cpp cxx hpp hxx hh ipp",
    "Clojure": "clj cljs cljc edn",
    "CSS": "css less sass scss",
    "Cython": "pyx pxd",
    "Dart": "dart",
    "Dockerfile": "dockerfile",
    "Elixir": "ex exs",
    "Elm": "elm",
    "Erlang": "erl hrl",
    "F#": "fs fsx fsi",
    "Fortran": "f f90 f95 for",
    "GLSL": "glsl frag vert",
    "Go": "go",
    "GraphQL": "graphql gql",
    "Groovy": "groovy gradle",
    "Haskell": "hs lhs",
    "HTML": "html htm xhtml",
    "Java": "java",
    "JavaScript": "js jsx mjs cjs",
    "Julia": "jl",
    "Jupyter": "ipynb",
    "Kotlin": "kt kts",
    "Lisp": "lisp el cl scm rkt",
    "Lua": "lua",
    "Make": "mk mak cmake",
    "Nix": "nix",
    "OCaml": "ml mli",
    "Objective-C": "m mm",
    "Pascal": "pas pp dpr",
    "Perl": "pl pm t",
    "PHP": "php phtml",
    "PowerShell": "ps1 psm1 psd1",
    "Protocol Buffers": "proto",
    "Python": "py pyi pyw",
    "R": "r rmd",
    "Ruby": "rb rake gemspec erb",
    "Rust": "rs",
    "Scala": "scala sbt sc",
    "Shell": "sh bash zsh fish ksh bat cmd",
    "Solidity": "sol",
    "SQL": "sql ddl",
    "Svelte": "svelte",
    "Swift": "swift",
    "Tcl": "tcl",
    "Templates": "j2 jinja jinja2 mustache hbs ejs tmpl tpl liquid",
    "Terraform": "tf tfvars hcl",
    "TypeScript": "ts tsx mts cts",
    "Verilog": "v sv svh vhd vhdl",
    "Vim script": "vim",
    "Vue": "vue",
    "Zig": "zig",
}
_PROSE = {
    "AsciiDoc": "adoc asciidoc",
    "Markdown": "md mdx markdown",
    "reStructuredText": "rst",
    "TeX": "tex bib sty",
    "Text": "txt text log",
}
_DATA = {
    "CSV": "csv tsv",
    "INI": "ini cfg conf properties editorconfig env",
    "JSON": "json jsonl ndjson json5 jsonc geojson",
    "Lock files": "lock lockb sum",
    "SVG": "svg",
    "TOML": "toml",
    "XML": "xml xsd xsl xslt plist pom csproj vcxproj resx",
    "YAML": "yaml yml",
}
_MEDIA = {
    "Archives": "zip gz tgz bz2 xz zst 7z rar tar jar war whl egg deb rpm apk dmg iso",
    "Audio": "mp3 wav ogg flac m4a aac opus",
    "Binaries": "exe dll so dylib a o obj lib pyc pyo class wasm bin dat pdb node",
    "Databases": "sqlite sqlite3 db mdb parquet feather arrow npy npz h5 hdf5 pkl pickle",
    "Documents": "pdf doc docx xls xlsx ppt pptx odt ods odp epub",
    "Fonts": "ttf otf woff woff2 eot",
    "Images": "png jpg jpeg gif webp bmp ico tif tiff psd heic avif",
    "Models": "onnx pt pth safetensors gguf tflite",
    "Video": "mp4 mov avi mkv webm m4v",
}
_NAMES = {
    "makefile": Language("Make", Kind.CODE),
    "gnumakefile": Language("Make", Kind.CODE),
    "cmakelists.txt": Language("Make", Kind.CODE),
    "dockerfile": Language("Dockerfile", Kind.CODE),
    "containerfile": Language("Dockerfile", Kind.CODE),
    "jenkinsfile": Language("Groovy", Kind.CODE),
    "rakefile": Language("Ruby", Kind.CODE),
    "gemfile": Language("Ruby", Kind.CODE),
    "readme": Language("Text", Kind.PROSE),
    "license": Language("Text", Kind.PROSE),
    "package-lock.json": LOCK,
    "pnpm-lock.yaml": LOCK,
    "npm-shrinkwrap.json": LOCK,
}
_TABLES = ((_CODE, Kind.CODE), (_PROSE, Kind.PROSE), (_DATA, Kind.DATA), (_MEDIA, Kind.MEDIA))
_SUFFIXES = {
    suffix: Language(name, kind)
    for table, kind in _TABLES
    for name, suffixes in table.items()
    for suffix in suffixes.split()
}


def language_of(path: str) -> Language:
    """Tell the language of a file by its name, `OTHER` when the table does not know."""
    name = path.rpartition("/")[2].lower()
    known = _NAMES.get(name)
    if known or "." not in name:
        return known or OTHER
    return _SUFFIXES.get(name.rpartition(".")[2], OTHER)
