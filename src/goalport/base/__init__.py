"""What all other wings use: errors, events, callers, wording, logs, spans, metrics, secrets and files."""
