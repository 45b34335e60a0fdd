// What survives a reload, in this origin's IndexedDB: the identity (keys as CryptoKey objects), the name, and messages that
// nobody has acknowledged yet. Where IndexedDB is not to be had (private windows of some browsers), everything lives as long
// as the page does, and `lasting` says so.

class PageStorage {
  static async open() {
    const storage = new PageStorage();
    try {
      storage.database = await new Promise((resolve, reject) => {
        const request = indexedDB.open("dlb-chat", 1);
        request.onupgradeneeded = () => {
          request.result.createObjectStore("settings");
          request.result.createObjectStore("outbox", {keyPath: "id"});
        };
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
        request.onblocked = () => reject(new Error("blocked"));
      });
      storage.database.onversionchange = () => storage.database.close();
    } catch {
      storage.database = null;
    }
    return storage;
  }

  get lasting() { return this.database !== null; }

  run(store, mode, action) {
    if (this.database === null) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(store, mode);
      const request = action(transaction.objectStore(store));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  }

  get(key) { return this.run("settings", "readonly", store => store.get(key)); }
  set(key, value) { return this.run("settings", "readwrite", store => store.put(value, key)); }

  outbox() { return this.run("outbox", "readonly", store => store.getAll()).then(entries => entries ?? []); }
  keepMessage(entry) { return this.run("outbox", "readwrite", store => store.put(entry)); }
  dropMessage(id) { return this.run("outbox", "readwrite", store => store.delete(id)); }
}
