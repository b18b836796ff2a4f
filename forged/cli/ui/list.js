"use strict";

// Virtual list: only the visible rows are elements. All rows have the same height.

const ROW_PX = 52;
const SPARE_ROWS = 8;

class VirtualList {
  /** `draw` returns the content of an item's row; `chosen` is called with a clicked item. */
  constructor(host, draw, chosen) {
    this.host = host;
    this.draw = draw;
    this.chosen = chosen;
    this.items = [];
    this.selected = -1;
    this.drawn = [0, 0];
    this.space = el("div", { class: "space", role: "presentation" });
    host.append(this.space);
    host.addEventListener("scroll", () => this.render());
    new ResizeObserver(() => this.render()).observe(host);
    this.space.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.chosen(this.items[Number(row.dataset.at)], Number(row.dataset.at));
    });
  }

  /** Show other items. */
  set(items, selected) {
    this.items = items;
    this.selected = selected;
    this.space.style.height = `${items.length * ROW_PX}px`;
    this.render(true);
  }

  /** Select the item at a position, or none, and scroll to it. */
  select(at) {
    this.selected = at;
    if (at >= 0) {
      const [top, room] = [at * ROW_PX, this.host.clientHeight];
      if (top < this.host.scrollTop) this.host.scrollTop = top;
      else if (top + ROW_PX > this.host.scrollTop + room) this.host.scrollTop = top + ROW_PX - room;
    }
    this.render(true);
  }

  render(anew = false) {
    const first = Math.max(0, Math.floor(this.host.scrollTop / ROW_PX) - SPARE_ROWS);
    const last = Math.min(this.items.length, Math.ceil((this.host.scrollTop + this.host.clientHeight) / ROW_PX) + SPARE_ROWS);
    if (!anew && this.drawn[0] === first && this.drawn[1] === last) return;
    this.drawn = [first, last];
    this.space.replaceChildren(...this.items.slice(first, last).map((item, offset) => this.row(item, first + offset)));
    const isSeen = this.selected >= first && this.selected < last;
    if (isSeen) this.host.setAttribute("aria-activedescendant", `row-${this.selected}`);
    else this.host.removeAttribute("aria-activedescendant");
  }

  row(item, at) {
    const row = el("div", {
      role: "option",
      id: `row-${at}`,
      class: "row",
      "data-at": at,
      "aria-selected": String(at === this.selected),
      "aria-setsize": this.items.length,
      "aria-posinset": at + 1,
    });
    row.style.transform = `translateY(${at * ROW_PX}px)`;
    row.append(...this.draw(item));
    return row;
  }
}
