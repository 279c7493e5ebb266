"""Account, projects, users, webhooks."""
