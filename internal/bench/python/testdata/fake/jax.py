"""A jax that computes when it is waited for."""

waited = []


def block_until_ready(tree):
    waited.append(tree)
    return tree
