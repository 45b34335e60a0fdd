// What people type and press: joining, writing, name and key, dialogs, notices.

class Forms {
  constructor(app) {
    this.app = app;
    this.at = Object.fromEntries([...document.querySelectorAll("[id]")].map(node => [node.id, node]));
    this.signed = true;
    const {at} = this;
    at.join.addEventListener("submit", event => { event.preventDefault(); this.submitName(at.name, at["join-error"]); });
    at.rename.addEventListener("submit", event => { event.preventDefault(); this.submitName(at["rename-name"], at["rename-error"]); });
    at.composer.addEventListener("submit", event => { event.preventDefault(); this.send(); });
    at.text.addEventListener("input", () => this.typed());
    at.text.addEventListener("keydown", event => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.send();
    });
    at["open-people"].addEventListener("click", () => { this.app.people.ask(); at.people.showModal(); });
    at["open-settings"].addEventListener("click", () => this.openSettings());
    at["export-key"].addEventListener("click", () => this.exportKey());
    at["key-file"].addEventListener("change", () => this.importKey());
    at["notice-action"].addEventListener("click", () => this.action?.());
    for (const button of document.querySelectorAll(".import-key")) button.addEventListener("click", () => at["key-file"].click());
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });  // beside it
    }
  }

  // `signed`: the server has WSS, so there are keys.
  ready(signed) {
    this.signed = signed;
    this.at["join-keys"].hidden = this.at["key-part"].hidden = !signed;
    for (const id of ["name", "rename-name"]) this.at[id].maxLength = 2 * this.app.limits["client-name-characters"];
  }

  welcome(error = "") {
    const {at} = this;
    at.chat.hidden = at.side.hidden = at["open-people"].hidden = at["open-settings"].hidden = true;
    at.welcome.hidden = false;
    at.settings.close();
    at.name.value = this.app.name;
    this.fault(at["join-error"], error);
    if (!error) this.app.state("ok", "ready");
    at.name.focus();
    if (this.signed && !this.app.identity) this.newKey();
  }

  // It takes a moment, so it is made while the name is thought of.
  newKey() { return this.fresh ??= Keys.generate(); }

  chat() {
    const {at} = this;
    at.welcome.hidden = true;
    at.chat.hidden = at["open-settings"].hidden = false;
    at.settings.close();
    this.typed();
    at.text.focus();
  }

  fault(place, text) {
    place.textContent = text;
    place.hidden = text === "";
  }

  async submitName(input, place) {
    const name = Words.wellFormed(input.value.trim());
    const fault = Words.nameFault(name, this.app.limits["client-name-characters"]);
    this.fault(place, fault);
    if (fault) return input.focus();
    const {app} = this;
    try {
      // The key is kept before the server hears of it: a name whose key is lost is lost.
      if (this.signed && !app.identity) await this.useIdentity(await this.newKey());
      if (!this.signed) await app.storage.set("name", name).catch(() => {});
      navigator.storage?.persist?.().catch(() => {});
    } catch (error) {
      return this.fault(place, `No key could be made: ${error.message}`);
    }
    app.name = name;
    app.join();
    if (this.signed && !app.storage.lasting) {
      this.notice("This browser keeps nothing for this page, so your key is gone when you close it, and your name with it. Save the key.");
    }
  }

  async useIdentity(identity) {
    this.app.identity = identity;
    await this.app.storage.set("identity", identity).catch(() => { this.app.storage.database = null; });
  }

  typed() {
    const {text} = this.at;
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight + 2}px`;
    const bytes = Bytes.utf8(text.value).length, most = this.app.limits["msg-bytes"];
    const tooLong = bytes > most;
    this.at.send.disabled = tooLong || text.value.trim() === "";
    this.at["text-hint"].textContent = tooLong ? `Too long: ${bytes} bytes of at most ${most}.` : "Enter sends, Shift+Enter begins a new line.";
    this.at["text-hint"].classList.toggle("error", tooLong);
  }

  // As it was typed, never trimmed: the signature covers it.
  send() {
    const {text, send} = this.at;
    this.typed();
    if (send.disabled) return;
    this.app.outbox.add(Words.wellFormed(text.value), this.app.name);
    text.value = "";
    this.typed();
    this.app.conversation.toEnd();
    text.focus();
  }

  openSettings() {
    const {at, app} = this;
    at["rename-name"].value = app.name;
    this.fault(at["rename-error"], "");
    at.fingerprint.textContent = app.identity?.fingerprint ?? "";
    at.settings.showModal();
  }

  async exportKey() {
    const {identity, name} = this.app;
    const address = URL.createObjectURL(new Blob([await Keys.toPem(identity, name)], {type: "application/x-pem-file"}));
    const anchor = element("a");
    anchor.href = address;
    anchor.download = `dlb-${name.replace(/[^\p{L}\p{N}._-]+/gu, "_")}.pem`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  async importKey() {
    const {at, app} = this;
    const [file] = at["key-file"].files;
    at["key-file"].value = "";
    if (!file) return;
    const place = at.settings.open ? at["rename-error"] : at["join-error"];
    try {
      if (file.size > 65536) throw new Error("This file is too large for a key.");
      const {identity, name} = await Keys.fromPem(await file.text());
      await this.useIdentity(identity);
      const known = name || app.name;
      this.fault(place, "");
      if (known) {
        app.name = known;
        app.join();
      } else {
        at.name.focus();
      }
    } catch (error) {
      this.fault(place, error.message);
    }
  }

  // "": none. `link` {href, text}, `action` {text, run}.
  notice(text, link = null, action = null) {
    const {at} = this;
    at["notice-text"].textContent = text;
    at["notice-link"].hidden = link === null;
    at["notice-action"].hidden = action === null;
    if (link) Object.assign(at["notice-link"], {href: link.href, textContent: link.text});
    if (action) at["notice-action"].textContent = action.text;
    this.action = action?.run;
    at.notice.hidden = text === "";
  }

  details([title, text], facts) {
    const {at} = this;
    at["details-title"].textContent = title;
    at["details-text"].textContent = `${text}.`;
    at["details-list"].replaceChildren(...facts.flatMap(([name, value]) => {
      const shown = element("dd", "", String(value));
      shown.dir = "auto";
      return [element("dt", "", name), shown];
    }));
    at.details.showModal();
  }
}
