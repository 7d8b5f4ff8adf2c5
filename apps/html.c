/* Pages of one file: see html.h. */
#include "html.h"

#include <string.h>

#include <outrider/outrider.h>

/* Colours of series are those of Okabe and Ito, which people with poor colour vision tell apart; dashes
 * tell them apart in black and white. */
static const char style[] =
    ":root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--faint:#59636e;--rule:#d1d9e0;"
    "--card:#f6f8fa;--good:#116329;--goodback:#dafbe1;--bad:#a40e26;--badback:#ffebe9;"
    "--auto:#0550ae;--autoback:#ddf4ff;--c0:#1b1f24;--c1:#0072b2;--c2:#d55e00;--c3:#009e73;"
    "--c4:#b3589a;--c5:#8a6d00;--c6:#2f8fc4;--c7:#59636e;--acc:#cbe9d4;--rej:#fbd3c8;--own:#e3e8ee}"
    "@media (prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--faint:#9da7b3;"
    "--rule:#3d444d;--card:#151b23;--good:#7ee787;--goodback:#12351d;--bad:#ffa198;"
    "--badback:#45181b;--auto:#a5d6ff;--autoback:#0f2f4d;--c0:#e6edf3;--c1:#58b0e8;--c2:#ff9e4f;"
    "--c3:#3ccb9f;--c4:#e59bd0;--c5:#e6c84f;--c6:#9ad3f5;--c7:#9da7b3;--acc:#1d4a2d;--rej:#5c2a1e;"
    "--own:#2a323c}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:66rem;padding:1rem 1.25rem 3rem;background:var(--page);"
    "color:var(--ink);font:16px/1.5 system-ui,sans-serif;print-color-adjust:exact;"
    "-webkit-print-color-adjust:exact}"
    "h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}"
    "h3{font-size:1rem;margin:1rem 0 .25rem}p{margin:.5rem 0}"
    ".faint,figcaption{color:var(--faint);font-size:.875rem}"
    ".answers{display:grid;gap:.75rem;grid-template-columns:repeat(auto-fit,minmax(15rem,1fr));"
    "margin:1rem 0}"
    ".answer{border:1px solid var(--rule);border-radius:8px;padding:.75rem 1rem;"
    "background:var(--card);overflow-wrap:anywhere}"
    ".answer b{display:block;font-size:1.5rem;line-height:1.3}"
    ".badge{display:inline-block;border-radius:1em;padding:0 .6em;font-weight:600;"
    "border:1px solid currentColor;font-size:.9rem}"
    ".use{color:var(--good);background:var(--goodback)}"
    ".dont{color:var(--bad);background:var(--badback)}"
    ".auto{color:var(--auto);background:var(--autoback)}"
    ".plots{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),"
    "1fr))}"
    "figure{margin:0}figure h3{margin-top:0}figure>svg{width:100%;height:auto;display:block}"
    "svg text{fill:var(--faint);font:12px system-ui,sans-serif}svg text.label{fill:var(--ink)}"
    "svg text.name{fill:var(--ink);font-weight:600}"
    ".grid{stroke:var(--rule);stroke-width:.5}.frame{fill:none;stroke:var(--rule)}"
    ".mark{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:2 3}"
    ".line{fill:none;stroke-width:2}.whisker{fill:none;stroke-width:1.5}.dot{stroke:none}"
    ".ring{fill:none;stroke-width:2}"
    ".line.s0,.whisker.s0,.ring.s0{stroke:var(--c0)}.line.s1,.whisker.s1,.ring.s1{stroke:var(--c1)}"
    ".line.s2,.whisker.s2,.ring.s2{stroke:var(--c2)}.line.s3,.whisker.s3,.ring.s3{stroke:var(--c3)}"
    ".line.s4,.whisker.s4,.ring.s4{stroke:var(--c4)}.line.s5,.whisker.s5,.ring.s5{stroke:var(--c5)}"
    ".line.s6,.whisker.s6,.ring.s6{stroke:var(--c6)}.line.s7,.whisker.s7,.ring.s7{stroke:var(--c7)}"
    ".line.s1{stroke-dasharray:7 3}.line.s2{stroke-dasharray:2 2}.line.s3{stroke-dasharray:9 3 2 3}"
    ".line.s4{stroke-dasharray:12 4}.line.s5{stroke-dasharray:4 4}"
    ".dot.s0{fill:var(--c0)}.dot.s1{fill:var(--c1)}.dot.s2{fill:var(--c2)}.dot.s3{fill:var(--c3)}"
    ".dot.s4{fill:var(--c4)}.dot.s5{fill:var(--c5)}.dot.s6{fill:var(--c6)}.dot.s7{fill:var(--c7)}"
    ".legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.875rem;margin:.25rem 0}"
    ".legend span{white-space:nowrap}.legend svg{width:28px;height:10px;margin-right:.35rem}"
    ".wide{overflow-x:auto;margin:.5rem 0}"
    ".wide th:first-child,.wide td:first-child{position:sticky;left:0;background:var(--page);"
    "padding-right:.75rem}.wide th,.wide td{padding:.2rem .45rem}"
    ".compare td{white-space:normal}.compare td span{white-space:nowrap}.compare td,.compare thead "
    "th{padding-left:1rem}"
    ".task th,.task td{padding-top:.8rem}"
    "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}"
    "th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--rule);"
    "white-space:nowrap}th:first-child,td:first-child{text-align:left;padding-left:0}"
    "thead th{color:var(--faint);font-weight:500;vertical-align:bottom}"
    ".facts td{text-align:left;white-space:normal;overflow-wrap:anywhere;vertical-align:top}"
    ".facts td:first-child{white-space:nowrap;overflow-wrap:normal}"
    ".strip{white-space:pre-wrap;overflow-wrap:anywhere;font:14px/1.7 ui-monospace,monospace;"
    "border:1px solid var(--rule);border-radius:8px;padding:.75rem 1rem;margin:.25rem 0 1rem}"
    ".strip span,.key{border-radius:3px}.a{background:var(--acc)}"
    ".r{background:var(--rej);border-bottom:2px solid var(--bad)}"
    "del{color:var(--bad);text-decoration:line-through;text-decoration-thickness:2px}"
    ".b,.p,.f{background:var(--own)}.key{padding:0 .4em;font-size:.875rem}"
    ".legend .key{white-space:normal}code.run{display:block;overflow-wrap:anywhere}"
    "code{font:.9em ui-monospace,monospace}.warn{border-left:4px solid "
    "var(--bad);padding-left:.75rem}"
    "@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--faint:#444;--rule:#bbb;"
    "--card:#fff;--good:#116329;--goodback:#fff;--bad:#a40e26;--badback:#fff;--auto:#0550ae;"
    "--autoback:#fff;--c0:#000;--c1:#0072b2;--c2:#d55e00;--c3:#009e73;--c4:#b3589a;--c5:#8a6d00;"
    "--c6:#2f8fc4;--c7:#59636e;--acc:#cbe9d4;--rej:#fbd3c8;--own:#e3e8ee}"
    "figure,table,.answer,.strip{break-inside:avoid}h2,h3{break-after:avoid}"
    "body{max-width:none;padding:0}.plots{grid-template-columns:1fr 1fr}.wide{overflow:visible}"
    ".wide table{font-size:.7rem;width:100%}.wide th,.wide td{padding:.1rem .25rem}}";

void html_escape(text *t, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '&':
            text_append(t, "&amp;", 5);
            break;
        case '<':
            text_append(t, "&lt;", 4);
            break;
        case '>':
            text_append(t, "&gt;", 4);
            break;
        case '"':
            text_append(t, "&quot;", 6);
            break;
        case '\'':
            text_append(t, "&#39;", 5);
            break;
        default:
            if (((unsigned char)*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f)
                text_append(t, "\xef\xbf\xbd", 3);
            else
                text_append(t, s, 1);
        }
    }
}

void html_begin(text *t, const char *title)
{
    text_printf(t,
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "style-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"outrider %s\">\n"
                "<title>",
                otr_version());
    html_escape(t, title);
    text_printf(t, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
    html_escape(t, title);
    text_printf(t, "</h1>\n");
}

void html_end(text *t)
{
    text_printf(t, "</body>\n</html>\n");
}
