"""Provide feature extractors: trained networks that turn images into features for scores."""
