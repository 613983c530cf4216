//! The flags that limit where webhooks may connect.

use clap::Args;

use crate::alerts::{address::AddressPolicy, delivery::DeliveryOptions, destination::UrlPolicy};

#[derive(Debug, Default, Args)]
pub(super) struct WebhookFlags {
    /// Allow http:// webhook URLs, such as that of an Alertmanager in the cluster
    #[arg(long, env = "ORCHESTR_WEBHOOK_ALLOW_HTTP")]
    webhook_allow_http: bool,

    /// Refuse to connect webhooks to private addresses, which includes receivers inside the cluster
    #[arg(long, env = "ORCHESTR_WEBHOOK_REFUSE_PRIVATE")]
    webhook_refuse_private: bool,

    /// Allow webhooks to connect to loopback addresses, for tests and demonstrations
    #[arg(long, env = "ORCHESTR_WEBHOOK_ALLOW_LOOPBACK")]
    webhook_allow_loopback: bool,

    /// Send webhook requests through the proxy set by HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY
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
