"use strict";
// Keys and signatures: RSA-PSS with SHA-256 and a salt of 32 bytes, keys as SPKI, key files as PKCS#8 in PEM. The private
// key is extractable, since its owner may save it to a file and go on elsewhere: a key that can't leave the browser would be
// gone with the browser's data, and the name with it. It is kept in this origin's IndexedDB and sent to nobody.

const Bytes = {
  utf8: text => new TextEncoder().encode(text),

  toBase64(buffer) {
    let binary = "";
    for (const byte of new Uint8Array(buffer)) binary += String.fromCharCode(byte);
    return btoa(binary);
  },

  fromBase64(text) {
    return Uint8Array.from(atob(text), character => character.charCodeAt(0));
  },
};

const Keys = {
  // Without a secure context (TLS or localhost) there is no WebCrypto.
  available: () => globalThis.isSecureContext === true && globalThis.crypto?.subtle !== undefined,

  algorithm: {name: "RSA-PSS", hash: "SHA-256"},
  signing: {name: "RSA-PSS", saltLength: 32},

  // An identity: {privateKey, publicKey, spki (base64), fingerprint (hex)}.
  async generate() {
    const pair = await crypto.subtle.generateKey(
      {...Keys.algorithm, modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1])}, true, ["sign", "verify"]);
    return Keys.identityOf(pair.privateKey, pair.publicKey);
  },

  async identityOf(privateKey, publicKey) {
    const spki = Bytes.toBase64(await crypto.subtle.exportKey("spki", publicKey));
    return {privateKey, publicKey, spki, fingerprint: await Keys.fingerprint(spki)};
  },

  // In groups, as people compare them.
  async fingerprint(spki) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", Bytes.fromBase64(spki)));
    const hex = Array.from(digest, byte => byte.toString(16).padStart(2, "0")).join("");
    return hex.match(/.{4}/g).join(" ");
  },

  async sign(identity, parts) {
    const text = Bytes.utf8(parts.join("\n"));
    return Bytes.toBase64(await crypto.subtle.sign(Keys.signing, identity.privateKey, text));
  },

  importPublic(spki) {
    return crypto.subtle.importKey("spki", Bytes.fromBase64(spki), Keys.algorithm, true, ["verify"]);
  },

  async verify(publicKey, parts, signature) {
    try {
      return await crypto.subtle.verify(Keys.signing, publicKey, Bytes.fromBase64(signature), Bytes.utf8(parts.join("\n")));
    } catch {
      return false;
    }
  },

  // What is signed: section 6 of the protocol.
  async registerParts(identity, name, timestamp) {
    const digest = await crypto.subtle.digest("SHA-256", Bytes.fromBase64(identity.spki));
    return ["dlb-register-v1", name, timestamp, Bytes.toBase64(digest)];
  },
  messageParts: (name, id, text) => ["dlb-message-v1", name, id, text],

  // The text before the first line of dashes is a comment to every reader of PEM; ours brings the name back.
  async toPem(identity, name) {
    const base64 = Bytes.toBase64(await crypto.subtle.exportKey("pkcs8", identity.privateKey));
    const lines = base64.match(/.{1,64}/g).join("\n");
    return `name: ${name}\n-----BEGIN PRIVATE KEY-----\n${lines}\n-----END PRIVATE KEY-----\n`;
  },

  // {identity, name or ""}. Throws an Error with words for people.
  async fromPem(text) {
    const found = /-----BEGIN ([A-Z ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----/.exec(text);
    if (!found) throw new Error("This file holds no key in PEM form.");
    if (found[1] === "ENCRYPTED PRIVATE KEY") throw new Error("This key has a passphrase; save it without one first.");
    if (found[1] !== "PRIVATE KEY") throw new Error(`This file holds “${found[1].toLowerCase()}”, but a PKCS#8 private key is needed.`);
    let privateKey, publicKey;
    try {
      const der = Bytes.fromBase64(found[2].replace(/\s+/g, ""));
      privateKey = await crypto.subtle.importKey("pkcs8", der, Keys.algorithm, true, ["sign"]);
      const {n, e} = await crypto.subtle.exportKey("jwk", privateKey);
      publicKey = await crypto.subtle.importKey("jwk", {kty: "RSA", n, e, alg: "PS256", ext: true}, Keys.algorithm, true, ["verify"]);
    } catch {
      throw new Error("This file's key can't be read: an RSA key of 2048 to 4096 bits is needed.");
    }
    const bits = privateKey.algorithm.modulusLength;
    if (bits < 2048 || bits > 4096) throw new Error(`This key has ${bits} bits; 2048 to 4096 are needed.`);
    const name = /^name: (.+)$/m.exec(text.slice(0, found.index));
    return {identity: await Keys.identityOf(privateKey, publicKey), name: name ? name[1] : ""};
  },
};
