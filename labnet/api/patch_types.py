"""The four media types of a patch, by which a PATCH request says what its body means.

JSON Patch (RFC 6902) is a list of operations, a merge patch (RFC 7386) a piece of the
object in which null deletes; a strategic merge patch is the same, but knows which lists are
merged by a key (containers by name); apply sends what one author wants and leaves the rest.
"""

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
