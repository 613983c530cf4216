//! The flags that say what webhooks may do.

use clap::Args;

use crate::alerts::{address::AddressPolicy, delivery::DeliveryOptions, destination::UrlPolicy};

/// What the one who runs the operator allows webhooks to do.
#[derive(Debug, Default, Args)]
pub(super) struct WebhookFlags {
    /// Let webhooks have http:// URLs, such as that of an Alertmanager in the cluster
    #[arg(long, env = "ORCHESTR_WEBHOOK_ALLOW_HTTP")]
    webhook_allow_http: bool,

    /// Never connect webhooks to private addresses, which receivers inside the cluster have
    #[arg(long, env = "ORCHESTR_WEBHOOK_REFUSE_PRIVATE")]
    webhook_refuse_private: bool,

    /// Let webhooks connect to this very host, for tests and demonstrations
    #[arg(long, env = "ORCHESTR_WEBHOOK_ALLOW_LOOPBACK")]
    webhook_allow_loopback: bool,

    /// Send to webhooks through the proxy that HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY name
    #[arg(long, env = "ORCHESTR_WEBHOOK_PROXY_FROM_ENV")]
    webhook_proxy_from_env: bool,
}

impl WebhookFlags {
    pub(super) fn access(&self) -> DeliveryOptions {
        let addresses = AddressPolicy { private: !self.webhook_refuse_private, loopback: self.webhook_allow_loopback };
        DeliveryOptions {
            urls: UrlPolicy { plain_http: self.webhook_allow_http, addresses },
            proxy_from_env: self.webhook_proxy_from_env,
        }
    }
}
