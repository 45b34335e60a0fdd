"use strict";

// Elements, for the pages that show figures: dashboard, report of a run, sweep. It stands first in their scripts. What a page
// is told gets into it as text, never as markup.

// element("p", {class: "x", id: "y"}, "text", child): attributes, then children.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawing(name, attributes = {}, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

const byId = id => document.getElementById(id);
