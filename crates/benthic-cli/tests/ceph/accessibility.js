// Checks the page and returns a list of faults: names of controls, headings, contrast, width.
(() => {
  const faults = [];
  const isShown = (node) => node.checkVisibility({ checkVisibilityCSS: true, checkOpacity: false }) && node.getClientRects().length > 0;
  const all = (selector) => [...document.querySelectorAll(selector)].filter(isShown);
  const about = (node) => node.outerHTML.slice(0, 120);
  const named = (node) => (node.getAttribute('aria-label') || node.textContent || '').trim() !== '';

  if (!document.documentElement.lang) faults.push('the page has no language');
  if (!document.title) faults.push('the page has no title');
  if (all('main').length !== 1) faults.push('the page has not one main element');
  if (all('h1').length !== 1) faults.push('the page has not one h1');
  let level = 1;
  for (const heading of all('h1, h2, h3, h4')) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) faults.push('a heading skips a level: ' + about(heading));
    level = own;
  }
  for (const input of all('input, select, textarea')) {
    if (!input.labels.length && !input.getAttribute('aria-label')) faults.push('an input has no label: ' + about(input));
  }
  for (const node of all('button, a[href], summary')) if (!named(node)) faults.push('a control has no name: ' + about(node));
  for (const image of all('img')) if (!image.getAttribute('alt')) faults.push('an image has no text: ' + about(image));
  for (const node of all('[tabindex]')) if (Number(node.getAttribute('tabindex')) > 0) faults.push('an element changes the order of focus: ' + about(node));
  const ids = [...document.querySelectorAll('[id]')].map((node) => node.id);
  ids.filter((id, index) => ids.indexOf(id) !== index).forEach((id) => faults.push('an id occurs twice: ' + id));
  for (const cell of all('th')) if (!cell.textContent.trim()) faults.push('a column has no name');

  // Contrast of text by WCAG 2, at least 4.5 to 1. Disabled controls are exempt.
  const color = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const over = (top, below) => { const alpha = top[3] === undefined ? 1 : top[3]; return [0, 1, 2].map((index) => top[index] * alpha + below[index] * (1 - alpha)); };
  const background = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(color(getComputedStyle(at).backgroundColor));
    const base = matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((below, top) => over(top, below), base);
  };
  const luminance = (rgb) => { const [r, g, b] = rgb.map((value) => { const share = value / 255; return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || seen.has(node) || !isShown(node) || node.closest(':disabled, noscript, svg, option')) continue;
    seen.add(node);
    const below = background(node), own = over(color(getComputedStyle(node).color), below);
    const [high, low] = [luminance(own), luminance(below)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faults.push('too little contrast (' + ratio.toFixed(2) + '): ' + about(node));
  }
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) faults.push('the page is ' + wide + ' pixels too wide');
  return faults;
})()
