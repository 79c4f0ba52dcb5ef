"""`goalport keys`: makes, lists, replaces and revokes API keys. A key is shown when it is made, and never again.

The commands change the key file of the workspace, which a running server reads again. They load no agents.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from goalport.base.caller import user_of_machine
from goalport.base.errors import BadInput, SettingsError, UnknownName
from goalport.base.words import counted, listed, validation_reason
from goalport.cli.options import AsJson, WorkspaceFolder, duration_of, workspace_root
from goalport.cli.terminal import Record, local_time, say, show
from goalport.server.auth.keys import KeyFile, KeyUses, NewKey, new_key
from goalport.workspace.settings import KeyEntry, Settings, audit_of, load_settings

_NEVER: Final = "never"
_KEYS_OFF: Final = "warning: the setting auth.keys is false, so the server asks for no keys."


def new(
    name: str,
    /,
    *,
    scopes: str | None = None,
    expires: str | None = None,
    entry: bool = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Make a key and print it. Only its hash is kept: whoever loses the key needs a new one.

    Args:
        name: Whose key it is, such as anna or build-server: the caller's name in the log.
        scopes: What the key may do, separated by commas. Default: goals:read,goals:write, which is to see and call all
            goals that ask for no other scope. goals:admin follows and ends what others began too.
        expires: When it ends: after 90d, 12h or 30m. Default: never.
        entry: Do not write the key file: print the key, and on a second line its entry for auth.key_entries.

    Examples:
        goalport keys new anna
        goalport keys new build-server --scopes goals:read --expires 90d
    """
    settings = load_settings(workspace_root(workspace))
    usual = (settings.auth.scope("read"), settings.auth.scope("write"))
    granted = usual if scopes is None else tuple(dict.fromkeys(scopes.replace(",", " ").split()))
    if not granted:
        raise BadInput(f"--scopes is empty. Leave it out for {','.join(usual)}.")
    made = _made(name, granted, None if expires is None else duration_of(expires))
    if entry:
        print(made.key.get_secret_value(), json.dumps(made.entry.record()), sep="\n", flush=True)
        say(f"The first line is the key of {name}, shown this once. The second is its entry for auth.key_entries.")
        return
    is_first = not settings.uses_keys
    with _changing(settings) as entries:
        entries.append(made.entry)
    _announce(made, settings, is_first=is_first)


def list_keys(*, structured: AsJson = False, workspace: WorkspaceFolder = Path()) -> None:
    """List the keys of the file and of the settings: what each may do, until when, and when it was last used."""
    settings = load_settings(workspace_root(workspace))
    used, now = KeyUses(settings.data_dir).times(), datetime.now(UTC)
    found = [*KeyFile(settings.key_file).read(), *settings.auth.key_entries]
    shown = datetime.isoformat if structured else local_time
    records: list[Record] = [
        {
            "name": each.name,
            "id": each.id,
            "state": each.state(now),
            "scopes": list(each.scopes),
            "created": shown(each.created),
            "expires": _NEVER if each.expires is None else shown(each.expires),
            "last_used": shown(used[each.id]) if each.id in used else "",
        }
        for each in found
    ]
    none = f"There are no keys in {settings.key_file} and in the settings. `goalport keys new NAME` makes one."
    show(records, "json" if structured else "text", none=none)
    if settings.auth.keys is False:
        say(_KEYS_OFF)


def revoke(which: str, /, *, workspace: WorkspaceFolder = Path()) -> None:
    """Revoke a key, or all keys of a name. A running server follows within a second or two.

    Args:
        which: The id of a key, or a name: all keys of that name.

    Examples:
        goalport keys revoke anna
    """
    settings, now = load_settings(workspace_root(workspace)), _now()
    with _changing(settings) as entries:
        chosen = _chosen(which, entries, settings)
        ended = [each for each in chosen if each.revoked is None]
        entries[:] = [each.model_copy(update={"revoked": now}) if each in ended else each for each in entries]
    _note(settings, "key_revoked", *ended)
    if not ended:
        say(f"{listed(each.id for each in chosen)} had been revoked before.")
        return
    say(f"Revoked: {listed(f'{each.id} of {each.name}' for each in ended)}. A running server follows in a moment.")
    if others := [each.id for each in settings.auth.key_entries if each.name == which and each.state(now) == "valid"]:
        say(f"warning: {listed(others)} of {which} in the setting auth.key_entries is still valid; remove it there.")
    if not any(each.state(now) == "valid" for each in entries):
        say("No key is valid now. Nobody can call until you make one; the server stays closed.")


def rotate(
    name: str, /, *, overlap: str = "7d", expires: str | None = None, workspace: WorkspaceFolder = Path()
) -> None:
    """Replace a key: make another one with the same scopes, and let the earlier ones end after a while.

    Args:
        name: Whose keys are replaced.
        overlap: How long the earlier keys stay valid: 7d, 12h, or 0s. Default: 7d.
        expires: When the new key ends. Default: after as long as the earlier.

    Examples:
        goalport keys rotate anna
    """
    settings, now = load_settings(workspace_root(workspace)), _now()
    end = now + duration_of(overlap)
    with _changing(settings) as entries:
        valid = [each for each in _chosen(name, entries, settings) if each.state(now) == "valid"]
        if not valid:
            raise BadInput(f"No key of {name} is valid, so none is replaced. Make one: goalport keys new {name}")
        last = valid[-1]
        usual = None if last.expires is None else last.expires - last.created
        made = _made(last.name, last.scopes, usual if expires is None else duration_of(expires))
        entries[:] = [
            each.model_copy(update={"expires": min(each.expires or end, end)}) if each in valid else each
            for each in entries
        ]
        entries.append(made.entry)
    _announce(made, settings)
    say(f"{counted(len(valid), 'earlier key')} of {made.entry.name} will end: {local_time(end)} at the latest.")


def _made(name: str, scopes: Sequence[str], lasts: timedelta | None) -> NewKey:
    try:
        return new_key(name, scopes, None if lasts is None else _now() + lasts)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise BadInput(f"The {first['loc'][0]} {validation_reason(first['msg'])}; came {first['input']!r}.") from None
    except OverflowError:
        raise BadInput("The key would end after the year 9999. Leave --expires out for one that does not.") from None


def _note(settings: Settings, deed: str, *entries: KeyEntry) -> None:
    """Write into the audit log what this machine's user did with these keys; `deed` is such as `key_revoked`."""
    audit = audit_of(settings)
    if audit is None:
        return
    for each in entries:
        facts = {"door": "cli", "key": each.id, "name": each.name, "scopes": list(each.scopes)}
        audit.record(deed, user_of_machine(), facts)
    audit.close()


def _announce(made: NewKey, settings: Settings, *, is_first: bool = False) -> None:
    """Write a new key's entry into the audit log, and show the key."""
    key, entry = made.key.get_secret_value(), made.entry
    _note(settings, "key_created", entry)
    print(key, flush=True)
    ends = "it does not expire" if entry.expires is None else f"it expires {local_time(entry.expires)}"
    say(f"That is the key of {entry.name} ({entry.id}: {', '.join(entry.scopes)}; {ends}). It is shown this once.")
    say("A client gets it by `goalport connect CLIENT --key KEY`, such as: goalport connect cursor --key KEY")
    if is_first and settings.auth.keys is None:
        say("A server that is running does not ask for keys yet; start it again, and everybody needs one.")
    if settings.auth.keys is False:
        say(_KEYS_OFF)


@contextmanager
def _changing(settings: Settings) -> Generator[list[KeyEntry]]:
    """The records of the key file, to be changed. Raises `SettingsError` if it cannot be written."""
    try:
        with KeyFile(settings.key_file).changing() as entries:
            yield entries
    except OSError as error:
        raise SettingsError(
            f"The key file {settings.key_file} cannot be written: {error.strerror or error}. With --entry a key is"
            " printed in place of written, for the setting auth.key_entries."
        ) from error


def _chosen(which: str, entries: Sequence[KeyEntry], settings: Settings) -> Sequence[KeyEntry]:
    """The keys in the file with this id or name. Raises `UnknownName`, and `BadInput` if the key is in the settings."""
    if found := [each for each in entries if which in {each.id, each.name}]:
        return found
    if any(which in {each.id, each.name} for each in settings.auth.key_entries):
        raise BadInput(f"{which} is an entry of the setting auth.key_entries; change it there.")
    raise UnknownName("key", which, dict.fromkeys([*(each.name for each in entries), *(each.id for each in entries)]))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
