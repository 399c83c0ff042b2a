"""How few people could do: floors under every strategy, each with its proof."""
