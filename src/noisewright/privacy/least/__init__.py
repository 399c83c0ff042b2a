"""How little noise privacy allows, whatever the mechanism, with its proof."""
