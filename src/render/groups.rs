//! `--by`: counts the pods with a problem in groups.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::api::{Owner, PodProblem};

use super::{
    document::{By, Document, lasted_in_table, owner},
    grid::{self, Column, Narrow},
};

/// The groups of `-o json` and `-o yaml`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Groups {
    grouped_by: By,
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    /// The cluster, if several are scanned and the name means something in one of them only.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// Such as `shop/cart (Deployment)`.
    name: String,
    pods: usize,
    /// How many controllers the pods belong to. A pod without one is its own.
    owners: usize,
    /// When the first of the problems began.
    since: Time,
    /// Whether it may have begun before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    since_at_latest: bool,
    /// The pod whose problem began last.
    example_pod: String,
}

impl By {
    fn name(self, pod: &PodProblem) -> String {
        match self {
            Self::Owner => {
                let Owner { kind, name } = owner(pod);
                format!("{}/{name} ({kind})", pod.namespace)
            }
            Self::Reason => pod.reason.clone(),
            Self::Cause => pod.cause.to_string(),
            Self::Node if pod.node.is_empty() => "<none>".to_owned(),
            Self::Node => pod.node.clone(),
            Self::Namespace => pod.namespace.clone(),
        }
    }

    /// Whether the same name means the same in all clusters.
    fn is_of_all_clusters(self) -> bool {
        matches!(self, Self::Reason | Self::Cause)
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Owner => "OWNER",
            Self::Reason => "REASON",
            Self::Cause => "CAUSE",
            Self::Node => "NODE",
            Self::Namespace => "NAMESPACE",
        }
    }
}

/// Pods with their clusters, if these are named.
type Members<'a> = Vec<(Option<&'a str>, &'a PodProblem)>;

/// The groups with most pods first.
pub(super) fn groups(by: By, document: &Document) -> Groups {
    let mut members = BTreeMap::<(Option<&str>, String), Members<'_>>::new();
    for section in document.sections() {
        let context = section.context.as_deref();
        for pod in &section.pods {
            let cluster = context.filter(|_| !by.is_of_all_clusters());
            members.entry((cluster, by.name(pod))).or_default().push((context, pod));
        }
    }
    let group = |((context, name), members): ((Option<&str>, String), Members<'_>)| {
        let owners: BTreeSet<_> = members.iter().map(|(context, pod)| (*context, &pod.namespace, owner(pod))).collect();
        let oldest = members.iter().map(|(_, pod)| pod.since.clone()).min()?;
        // The pods of each cluster are sorted, the most recent problem first.
        let (_, example) = members.iter().rev().max_by_key(|(_, pod)| &pod.since)?;
        Some(Group {
            context: context.map(str::to_owned),
            name,
            pods: members.len(),
            owners: owners.len(),
            since: oldest,
            since_at_latest: members.iter().any(|(_, pod)| pod.since_at_latest),
            example_pod: format!("{}/{}", example.namespace, example.name),
        })
    };
    let mut groups: Vec<_> = members.into_iter().filter_map(group).collect();
    // A stable sort: groups of the same size are sorted by cluster and name.
    groups.sort_by_key(|group| Reverse(group.pods));
    Groups { grouped_by: by, groups }
}

/// The groups as a table.
pub(crate) fn table(by: By, document: &Document, width: Option<usize>) -> String {
    let (groups, now) =
        (groups(by, document), document.sections().map(|section| section.now).max().unwrap_or_default());
    let has_contexts = groups.groups.iter().any(|group| group.context.is_some());
    let mut columns = vec![
        Column::new(groups.grouped_by.heading()).narrow(Narrow::Shorten),
        Column::new("PODS"),
        Column::new("OWNERS").narrow(Narrow::LeaveOut(0)),
        Column::new("SINCE").narrow(Narrow::LeaveOut(1)),
        Column::new("EXAMPLE").narrow(Narrow::Shorten),
    ];
    if has_contexts {
        columns.insert(0, Column::new("CONTEXT").narrow(Narrow::Shorten));
    }
    let row = |group: Group| {
        let since = lasted_in_table(&group.since, group.since_at_latest, now);
        let cells = [group.name, group.pods.to_string(), group.owners.to_string(), since, group.example_pod];
        let context = has_contexts.then(|| group.context.unwrap_or_default());
        context.into_iter().chain(cells).collect()
    };
    grid::table(columns, groups.groups.into_iter().map(row).collect(), width)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{
            document::tests::{document, section},
            text::plain,
        },
        *,
    };

    fn pod(namespace: &str, name: &str, owner: Option<&str>, reason: &str, since: &str) -> PodProblem {
        let owner = owner.map(|name| json!({"kind": "Deployment", "name": name}));
        let mut pod = json!({
            "name": name, "namespace": namespace, "status": "Error", "reason": reason, "cause": "ExitCode",
            "node": "node-7", "since": since,
        });
        pod["owner"] = owner.unwrap_or_default();
        serde_json::from_value(pod).unwrap()
    }

    fn shown(by: By, sections: Vec<(Option<&str>, Vec<PodProblem>)>) -> String {
        let sections = sections.into_iter().map(|(context, pods)| Ok(section(context, Vec::new(), pods)));
        plain(&table(by, &document("", sections.collect()), Some(80)))
    }

    #[test]
    fn lists_the_largest_groups_first() {
        let pods = || {
            vec![
                pod("shop", "cart-b", Some("cart"), "OOMKilled", "2026-03-01T11:50:00Z"),
                pod("shop", "mailer-0", None, "Error", "2026-03-01T11:30:00Z"),
                pod("shop", "cart-a", Some("cart"), "OOMKilled", "2026-03-01T11:00:00Z"),
                pod("bank", "cart-c", Some("cart"), "OOMKilled", "2026-03-01T10:00:00Z"),
            ]
        };
        for (by, expected) in [
            (
                By::Owner,
                "OWNER                    PODS   OWNERS   SINCE   EXAMPLE\n\
                 shop/cart (Deployment)   2      1        60m     shop/cart-b\n\
                 bank/cart (Deployment)   1      1        120m    bank/cart-c\n\
                 shop/mailer-0 (Pod)      1      1        30m     shop/mailer-0\n",
            ),
            (
                By::Reason,
                "REASON      PODS   OWNERS   SINCE   EXAMPLE\n\
                 OOMKilled   3      2        120m    shop/cart-b\n\
                 Error       1      1        30m     shop/mailer-0\n",
            ),
            (
                By::Cause,
                "CAUSE      PODS   OWNERS   SINCE   EXAMPLE\n\
                 ExitCode   4      3        120m    shop/cart-b\n",
            ),
            (
                By::Node,
                "NODE     PODS   OWNERS   SINCE   EXAMPLE\n\
                 node-7   4      3        120m    shop/cart-b\n",
            ),
            (
                By::Namespace,
                "NAMESPACE   PODS   OWNERS   SINCE   EXAMPLE\n\
                 shop        3      2        60m     shop/cart-b\n\
                 bank        1      1        120m    bank/cart-c\n",
            ),
        ] {
            assert_eq!(shown(by, vec![(None, pods())]), expected);
        }
    }

    #[test]
    fn joins_reasons_but_not_names_of_several_clusters() {
        let cart = || vec![pod("shop", "cart-a", Some("cart"), "OOMKilled", "2026-03-01T11:00:00Z")];
        let sections = || vec![(Some("eu"), cart()), (Some("us"), cart())];
        assert_eq!(
            shown(By::Reason, sections()),
            "REASON      PODS   OWNERS   SINCE   EXAMPLE\nOOMKilled   2      2        60m     shop/cart-a\n"
        );
        assert_eq!(
            shown(By::Node, sections()),
            "CONTEXT   NODE     PODS   OWNERS   SINCE   EXAMPLE\n\
             eu        node-7   1      1        60m     shop/cart-a\n\
             us        node-7   1      1        60m     shop/cart-a\n"
        );
    }
}
