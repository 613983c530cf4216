//! Markdown: a summary for a GitHub Actions step (`$GITHUB_STEP_SUMMARY`), a merge request or an issue.
//!
//! Names, messages and logs may come from anyone. Names and messages are inline code in HTML, in which every character that
//! Markdown or HTML could interpret is a character reference; logs are code blocks whose fences are longer than any in the
//! log. In code, GitHub neither notifies the users that are mentioned nor links to issues.

use crate::api::PodProblem;

use super::{
    document::{Document, Entry, Section, Unchecked, cause, log_lines, logs, sentence},
    numbers::counted_in_groups,
    safe::printable,
};

/// The most bytes. GitHub refuses a summary of more than 1 MiB.
const MOST: usize = 1_000_000;
/// Of these, the most that tables may take. The rest is for logs.
const MOST_OF_TABLES: usize = 500_000;
/// Room for the last sentences and headings.
const RESERVE: usize = 4096;

const HEADINGS: &str = "| Incident | Reason | Cause | Pods | For | Message |\n| --- | --- | --- | ---: | --- | --- |\n";

pub(super) fn write(document: &Document) -> String {
    let mut text = format!("## {}\n", escaped(document.summary.trim_end_matches('.')));
    let mut more = 0;
    if document.unchecked().next().is_some() {
        text.push('\n');
    }
    for Unchecked { context, why } in document.unchecked() {
        let item = format!("- {} was not scanned: {}\n", code(context), code(why));
        if text.len() + item.len() <= MOST_OF_TABLES { text += &item } else { more += 1 }
    }
    if more > 0 {
        text += &format!("\nand {} that could not be scanned\n", counted_in_groups(more, "more cluster"));
    }
    let (mut more, mut shown) = (0, Vec::new());
    for section in document.sections() {
        let heading = heading(section);
        let mut begun = false;
        for entry in section.entries() {
            let row = row(&entry);
            let size = if begun { row.len() } else { row.len() + heading.len() };
            if text.len() + size > MOST_OF_TABLES {
                more += 1;
                continue;
            }
            if !std::mem::replace(&mut begun, true) {
                text += &heading;
            }
            text += &row;
            shown.push(entry);
        }
    }
    if more > 0 {
        text += &format!("\nand {}\n", counted_in_groups(more, "more incident"));
    }
    let mut without = 0;
    for entry in &shown {
        match entry.example.and_then(|pod| details(entry, pod)) {
            Some(details) if text.len() + details.len() + RESERVE <= MOST => text += &details,
            Some(_) => without += 1,
            None => {}
        }
    }
    if without > 0 {
        text += &format!("\nThe details of {} are left out.\n", counted_in_groups(without, "more incident"));
    }
    text
}

fn heading(section: &Section) -> String {
    let context = section.context.as_ref().map(|context| format!("\n### {}\n", code(context))).unwrap_or_default();
    format!("{context}\n{HEADINGS}")
}

fn row(entry: &Entry<'_>) -> String {
    let incident = entry.incident;
    format!(
        "| {} | {} | {} | {} | {} | {} |\n",
        code(&entry.name()),
        code(&incident.reason),
        code(cause(incident.cause)),
        incident.pods,
        entry.age(),
        code(&sentence(incident)),
    )
}

/// The evidence and the logs of a pod. Absent if it has neither.
fn details(entry: &Entry<'_>, pod: &PodProblem) -> Option<String> {
    let mut inner = String::new();
    for evidence in &pod.evidence {
        inner += &format!("- {}\n", code(evidence));
    }
    for (heading, log) in logs(pod) {
        let lines: Vec<_> = log_lines(log).collect();
        if lines.is_empty() {
            inner += &format!("\n{}: empty\n", code(&heading));
            continue;
        }
        let log = lines.join("\n");
        let fence = fence(&log);
        inner += &format!("\n{}:\n\n{fence}text\n{log}\n{fence}\n", code(&heading));
    }
    let context = entry.section.context.as_ref().map(|context| format!("{}: ", code(context))).unwrap_or_default();
    let name = code(&format!("{}/{}", pod.namespace, pod.name));
    (!inner.is_empty()).then(|| {
        format!("\n<details><summary>{context}{name}, {}</summary>\n\n{inner}\n</details>\n", code(&pod.status))
    })
}

/// More backticks than stand together anywhere in the text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<code>{}</code>", escaped(text)) }
}

/// A line of text without a meaning in Markdown or HTML, also in a table.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '|' | '~' | '$' | '@' | '#' | '!' | '"' | '\'' => {
                escaped += &format!("&#{};", u32::from(c));
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    use super::{
        super::document::tests::{document, out_of_memory},
        *,
    };

    fn render(summary: &str, sections: Vec<Section>) -> String {
        write(&document(summary, sections.into_iter().map(Ok).collect()))
    }

    #[test]
    fn shows_incidents_then_evidence_and_logs() {
        let section = out_of_memory(None, "cart", "app was OOM-killed", "one\n``` two\n");
        assert_eq!(
            render("1 of 40 pods has a problem.", vec![section]),
            "\
## 1 of 40 pods has a problem

| Incident | Reason | Cause | Pods | For | Message |
| --- | --- | --- | ---: | --- | --- |
| <code>shop/cart (Deployment)</code> | <code>OOMKilled</code> | <code>OutOfMemory</code> | 3 | 60m | <code>app was OOM-killed</code> |

<details><summary><code>shop/cart</code>, <code>CrashLoopBackOff</code></summary>

- <code>BackOff ×7</code>

<code>log of the previous run of app</code>:

````text
one
``` two
````

</details>
"
        );
    }

    #[test]
    fn names_each_cluster() {
        let section = |context| Ok(out_of_memory(Some(context), "cart", "killed", "one"));
        let unchecked = Err(Unchecked { context: "<b>".to_owned(), why: "no | answer".to_owned() });
        let all = vec![section("eu"), section("us"), unchecked];
        let text = write(&document("2 of 80 pods in 2 clusters have problems.", all));
        assert!(
            text.contains("\n- <code>&#60;b&#62;</code> was not scanned: <code>no &#124; answer</code>\n"),
            "{text}"
        );
        for context in ["eu", "us"] {
            assert!(text.contains(&format!("\n### <code>{context}</code>\n\n| Incident |")), "{text}");
            assert!(text.contains(&format!("<summary><code>{context}</code>: <code>shop/cart</code>, ")), "{text}");
        }
    }

    #[test]
    fn is_bounded_and_counts_what_it_leaves_out() {
        let one = out_of_memory(None, "cart", "killed", &"line of a log\n".repeat(300));
        let many = |count: usize| {
            let mut section = out_of_memory(None, "cart", "killed", "");
            section.incidents = (0..count)
                .map(|index| {
                    let mut incident = one.incidents[0].clone();
                    incident.owner.name = format!("cart-{index}");
                    incident
                })
                .collect();
            section.pods = (0..count)
                .map(|index| {
                    let mut pod = one.pods[0].clone();
                    pod.owner = Some(section.incidents[index].owner.clone());
                    pod
                })
                .collect();
            section
        };
        let text = render("", vec![many(1000)]);
        assert!(text.len() <= MOST && text.len() > MOST / 2, "{}", text.len());
        let details = text.matches("<details>").count();
        assert!(
            text.ends_with(&format!("\nThe details of {} more incidents are left out.\n", 1000 - details)),
            "{details}"
        );
        let text = render("", vec![many(5000)]);
        let rows = text.matches("\n| <code>").count();
        assert!(text.len() <= MOST && rows > 1000, "{rows}");
        assert!(
            text.contains(&format!("\nand {}\n", counted_in_groups(5000 - rows as u64, "more incident"))),
            "{rows}"
        );
    }

    /// The cells of all rows, the code blocks, and what must not be there.
    #[derive(Debug, Default, PartialEq)]
    struct Read {
        cells: Vec<Vec<String>>,
        blocks: Vec<String>,
        foreign: Vec<String>,
    }

    fn read(text: &str) -> Read {
        const TAGS: [&str; 6] = ["<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>"];
        let mut read = Read::default();
        let (mut in_cell, mut in_block) = (false, false);
        for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_GFM)
        {
            match event {
                Event::Start(Tag::TableHead | Tag::TableRow) => read.cells.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    in_cell = true;
                    read.cells.last_mut().unwrap().push(String::new());
                }
                Event::End(TagEnd::TableCell) => in_cell = false,
                Event::Start(Tag::CodeBlock(_)) => {
                    in_block = true;
                    read.blocks.push(String::new());
                }
                Event::End(TagEnd::CodeBlock) => in_block = false,
                Event::Text(text) if in_cell => read.cells.last_mut().unwrap().last_mut().unwrap().push_str(&text),
                Event::Text(text) if in_block => read.blocks.last_mut().unwrap().push_str(&text),
                Event::InlineHtml(html) | Event::Html(html) => {
                    let rest = TAGS.iter().fold(html.to_string(), |html, tag| html.replace(tag, ""));
                    if rest.contains(['<', '>']) {
                        read.foreign.push(html.to_string());
                    }
                }
                Event::Start(tag @ (Tag::Link { .. } | Tag::Image { .. } | Tag::Emphasis | Tag::Strong)) => {
                    read.foreign.push(format!("{tag:?}"));
                }
                Event::Code(code) => read.foreign.push(code.to_string()),
                _ => {}
            }
        }
        read
    }

    fn hostile() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            any::<String>(),
            "[`|<>&\\\\*_~#!\\[\\]()@$\n\r\t -]{1,12}",
            Just("</code></summary></details>\n\n# x".to_owned()),
            Just("\n```\n````\n~~~\n<script>".to_owned()),
            Just("\\| [a](javascript:x) ![](https://x) &lt; &#60; @org/team #1 <!--".to_owned()),
        ];
        prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn no_name_message_or_log_breaks_out(name in hostile(), message in hostile(), log in hostile()) {
            let mut section = out_of_memory(Some(&name), &name, &message, &log);
            section.pods[0].evidence = vec![message.clone()];
            let found = read(&render("1 of 40 pods has a problem.", vec![section]));
            prop_assert_eq!(&found.foreign, &Vec::<String>::new());
            prop_assert_eq!(found.cells.len(), 2);
            prop_assert!(found.cells.iter().all(|cells| cells.len() == 6), "{:?}", found.cells);
            prop_assert_eq!(&found.cells[1][0], &printable(&format!("shop/{name} (Deployment)")));
            prop_assert_eq!(&found.cells[1][5], &printable(&message));
            let log: String = log_lines(&log).map(|line| line + "\n").collect();
            // An empty log has no block.
            prop_assert_eq!(found.blocks, if log.is_empty() { Vec::new() } else { vec![log] });
        }
    }
}
