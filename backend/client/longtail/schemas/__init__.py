"""What the REST API takes and gives, one file a subject. Light to import: the client, the CLI and the dashboard live on it."""
