"""Where SGLang's n-gram worker looks for its kernel."""

from .trees import reconstruct_indices_from_tree_mask as reconstruct_indices_from_tree_mask
