// What the server's codes mean to a person, and small pure helpers for text.

const Words = {
  // A sentence for an error of the protocol or of HTTP. `detail` is the server's own.
  of(code, detail) {
    const sentence = Words.sentences[code];
    if (sentence !== undefined) return sentence.replace("DETAIL", detail ? `: ${detail}` : ".").replace("..", ".");
    return detail || `The server answered “${code}”.`;
  },

  sentences: {
    bad_json: "The server couldn't read what this page sent; reload the page.",
    bad_request: "The server refuses thisDETAIL",
    too_large: "This message is too long for the server.",
    unknown_type: "This page and the server don't speak the same version; reload the page.",
    not_registered: "The server has forgotten this session; joining again.",
    already_registered: "This session has joined already.",
    username_taken: "This name belongs to another key. If it is yours, open the key file you saved; else choose another name.",
    bad_signature: "The server couldn't verify the signature: the key in this browser may be damaged. Open your saved key.",
    stale_timestamp: "This device's clock is more than five minutes wrong. Set it and try again.",
    bad_key: "The server doesn't take this keyDETAIL",
    id_conflict: "Another message has this one's id already; send it again as a new one.",
    rate_limited: "That was fast: the server asks for a moment. It goes on by itself.",
    unavailable: "The server can't store messages right now; kept here and tried again.",
    outcome_unknown: "The server doesn't know yet whether this was stored; asking again.",
  },

  // Errors that pass by themselves: the same message is sent again, under the same id.
  passing: new Set(["rate_limited", "unavailable", "outcome_unknown", "not_registered"]),

  // What is wrong with a name, or "". The limits are the server's: code points, no control characters.
  nameFault(name, most) {
    if (name === "") return "A name is needed.";
    if ([...name].length > most) return `At most ${most} characters, please.`;
    if (/[\u0000-\u001f\u007f-\u009f]/.test(name)) return "Control characters can't be part of a name.";
    return "";
  },

  // Halves of surrogate pairs can't be sent as UTF-8.
  wellFormed: text => text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"),

  time: date => date.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"}),
  day: date => date.toLocaleDateString([], {weekday: "long", day: "numeric", month: "long", year: "numeric"}),

  // One of twelve colours, always the same for a name.
  hue(name) {
    let hash = 2166136261;
    for (const byte of Bytes.utf8(name)) hash = Math.imul(hash ^ byte, 16777619) >>> 0;
    return hash % 12;
  },
};
