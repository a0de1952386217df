"""The entry point of each component: its configuration, its parts put together."""
