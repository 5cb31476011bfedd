/** Downloads a text as a file. */
export function save(name: string, text: string): void {
  saveBlob(name, new Blob([text], { type: "text/plain;charset=utf-8" }));
}

export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 0);
}
