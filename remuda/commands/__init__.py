"""The commands of the command line, thin functions; importing a module registers its commands."""
