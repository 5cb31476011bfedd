// Tags and notes of a run.
export const notes = {
  title: "Tags and notes",
  tags: "Tags",
  noTags: "No tags",
  editTags: "Edit tags",
  saveTags: "Save tags",
  tagsHint: "key or key:value, separated by spaces; at most 20",
  add: "Add note",
  body: "Note",
  none: "No notes yet.",
  by: (who: string) => `by ${who}`,
};
