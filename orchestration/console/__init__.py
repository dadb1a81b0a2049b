"""The web service: webhooks, health, and pages about runs."""
