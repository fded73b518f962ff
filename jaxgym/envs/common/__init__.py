"""Parts that games of several families share: levels of the originals, checks of level buffers, and text interfaces."""
