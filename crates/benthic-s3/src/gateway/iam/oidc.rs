//! Identity providers (OpenID Connect).

use super::{Call, date, element, failure, field, invalid};
use crate::identity::{issuer_name, oidc_provider_arn, parse_oidc_provider_arn};
use benthic_core::OptionalExtension;
use s3s::S3Result;

impl Call<'_> {
    pub(super) async fn oidc_provider(&self, action: &str, result: &mut String) -> S3Result<()> {
        match action {
            "CreateOpenIDConnectProvider" => {
                let url = self.form.get("Url")?;
                let arn = oidc_provider_arn(&self.account, issuer_name(url));
                self.allow(action, &arn)?;
                self.iam.issuers.check_url(url).map_err(|message| invalid(&message))?;
                let client_ids = self.form.texts("ClientIDList")?;
                let thumbprints = self.form.texts("ThumbprintList")?;
                let created =
                    self.identities.create_oidc_provider(&self.account, url, client_ids, thumbprints).await;
                created.map_err(failure)?;
                field(result, "OpenIDConnectProviderArn", &arn);
                Ok(())
            }
            "ListOpenIDConnectProviders" => {
                self.allow(action, "*")?;
                let found = self.identities.oidc_providers(&self.account).await.map_err(failure)?;
                element(result, "OpenIDConnectProviderList", |text| {
                    found.iter().try_for_each(|(name, _)| {
                        element(text, "member", |text| {
                            field(text, "Arn", &oidc_provider_arn(&self.account, name));
                            Ok(())
                        })
                    })
                })
            }
            "GetOpenIDConnectProvider" => {
                let name = self.provider_name(action)?;
                let found = self.identities.oidc_provider(&self.account, name).await.map_err(failure)?;
                // AWS leaves out `https://`.
                field(result, "Url", found.url.strip_prefix("https://").unwrap_or(&found.url));
                for (name, values) in
                    [("ClientIDList", &found.client_ids), ("ThumbprintList", &found.thumbprints)]
                {
                    element(result, name, |text| {
                        values.iter().for_each(|value| field(text, "member", value));
                        Ok(())
                    })?;
                }
                field(result, "CreateDate", &date(found.created_ms)?);
                Ok(())
            }
            "DeleteOpenIDConnectProvider" => {
                let name = self.provider_name(action)?;
                // As on AWS, a repetition succeeds.
                let removed = self.identities.remove_oidc_provider(&self.account, name).await.optional();
                removed.map(drop).map_err(failure)
            }
            _ => {
                let name = self.provider_name(action)?;
                let thumbprints = match action {
                    "UpdateOpenIDConnectProviderThumbprint" => Some(self.form.texts("ThumbprintList")?),
                    _ => None,
                };
                let client_id = match &thumbprints {
                    Some(_) => "",
                    None => self.form.get("ClientID")?,
                };
                let changed =
                    self.identities.change_oidc_provider(
                        &self.account,
                        name,
                        |provider| match &thumbprints {
                            Some(thumbprints) => provider.thumbprints = thumbprints.clone(),
                            None if action.starts_with("Add") => {
                                provider.client_ids.insert(client_id.to_owned());
                            }
                            None => {
                                provider.client_ids.remove(client_id);
                            }
                        },
                    );
                changed.await.map_err(failure)
            }
        }
    }

    /// The name of the provider that the request names, if the caller may do this with it.
    fn provider_name(&self, action: &str) -> S3Result<&str> {
        let arn = self.form.get("OpenIDConnectProviderArn")?;
        self.allow(action, arn)?;
        match parse_oidc_provider_arn(arn) {
            Some((account, name)) if account == self.account => Ok(name),
            _ => Err(invalid(
                "OpenIDConnectProviderArn must be the ARN of an identity provider of your account",
            )),
        }
    }
}
