"""Processes on one or more hosts: launch them, watch them, check them."""
