"""The vectoriser: scalar nest to gang nest, where values have lanes."""
