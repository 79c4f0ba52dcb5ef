"""What all wings use: errors, events, who calls, words, logs, spans, metrics, secrets and files."""
