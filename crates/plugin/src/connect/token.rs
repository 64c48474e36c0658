//! The token of the Source's account: one that ends, with the right to renew it, or one without an end. Given again,
//! `connect` keeps the one that is there, unless it is told to renew it.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use pilotage_api::token::{Token as Claims, TokenLife};
use pilotage_runtime::call::{CALL_LIMIT, Failure, find, within};

use super::Work;
use crate::error::Error;
use crate::life::Life;
use crate::taken::Earlier;
use crate::undo::{self, only};
use crate::wait::{self, Shows};
use crate::{plan, progress, tokens};

/// The token of the Source's account.
pub(super) struct Token {
    pub(super) text: String,
    /// The one before, if it was made void.
    pub(super) void: Option<String>,
}

impl Token {
    /// A kubeconfig with this token, if it had the one that is void now.
    pub(super) fn in_place_of_the_old_one(&self, kubeconfig: &str) -> String {
        match &self.void {
            Some(void) => kubeconfig.replace(void.as_str(), &self.text),
            None => kubeconfig.to_owned(),
        }
    }
}

impl Work {
    /// A token of the Source's account.
    pub(super) async fn token(&self, earlier: &Earlier) -> Result<Token, Error> {
        let (place, name) = (self.connection.place(), &self.connection.source_name);
        let kubeconfig = earlier.kubeconfig.as_deref();
        let own = kubeconfig.and_then(|it| tokens::of_account(it, place, name));
        let void = if self.args.renew_token {
            self.end_tokens().await?;
            own.clone()
        } else {
            None
        };
        let text = match self.connection.life {
            Life::Endless => self.endless().await?,
            Life::Renewed(life) => {
                self.let_renew().await?;
                let is_good = earlier.connected && !self.args.renew_token;
                let ends = |token: &str| Claims::parse(token).is_some_and(|it| it.until.is_some());
                match own.filter(|own| is_good && ends(own)) {
                    // Its next end is the source's business.
                    Some(own) => own,
                    None => self.ending(life).await?,
                }
            }
        };
        Ok(Token { text, void })
    }

    /// Makes all tokens void that the account has.
    async fn end_tokens(&self) -> Result<(), Error> {
        let name = self.connection.token_name();
        let secrets: Api<Secret> = self.target.api(self.connection.place());
        let there = find(CALL_LIMIT, secrets.get(&name), "secrets", &name).await;
        if let Some(old) = there.map_err(self.target.failed("read the token"))? {
            let deleted = within(CALL_LIMIT, secrets.delete(&name, &only(old.uid()))).await;
            deleted.map_err(self.target.failed("delete the old token"))?;
        }
        // Where nobody says any more what kind it was, it may have been one that ends, or several.
        if self.standing != Some(Life::Endless) {
            self.new_account().await?;
        }
        Ok(())
    }

    /// What was given out for an account is good until its end, or the account's. The next one is made at once: until
    /// then the source has no token, and the target's controllers may be down. One that isn't there was deleted by a
    /// command that was interrupted.
    async fn new_account(&self) -> Result<(), Error> {
        let name = &self.connection.source_name;
        let accounts: Api<ServiceAccount> = self.target.api(self.connection.place());
        let there = accounts.get_metadata(name);
        let there = find(CALL_LIMIT, there, "serviceaccounts", name).await;
        let there = there.map_err(self.target.failed(format!("read ServiceAccount {name}")))?;
        let old = there.map(|it| it.metadata);
        let anew = self.connection.account_anew(old.as_ref());
        let anew = serde_json::from_value(anew);
        let anew: ServiceAccount = anew.map_err(|error| Error::Render(error.to_string()))?;
        let old = old.and_then(|it| it.uid);
        progress(&format!(
            "target: ServiceAccount {name} is made anew, so that its tokens are void"
        ));
        if old.is_some() {
            let deleted = within(CALL_LIMIT, accounts.delete(name, &only(old.clone()))).await;
            deleted.map_err(self.target.failed(format!("delete ServiceAccount {name}")))?;
        }
        let params = PostParams {
            field_manager: Some(plan::MANAGER.to_owned()),
            ..PostParams::default()
        };
        match within(CALL_LIMIT, accounts.create(&params, &anew)).await {
            Ok(_) => return Ok(()),
            // The target's controllers were faster, or a finalizer keeps the old one.
            Err(error) if error.kind() == Failure::AlreadyExists => {}
            Err(error) => {
                let what = format!("make ServiceAccount {name}");
                return Err(self.target.failed(what)(error));
            }
        }
        let look = |account: Option<&ServiceAccount>| {
            let meta = account.map(|it| &it.metadata);
            match meta {
                Some(meta) if meta.uid != old && plan::is_of_a_source(meta) => Shows::Done,
                _ => Shows::Yet("it hasn't been made anew".to_owned()),
            }
        };
        let waited = wait::until(accounts.clone(), name, self.args.timeout, look).await;
        waited.map_err(|last| {
            self.late(
                format!("ServiceAccount {name} of the target isn't there"),
                last,
                "see whether \"pilotage controllers\" runs in the target, and give the same command again",
            )
        })
    }

    /// The right to renew the token.
    async fn let_renew(&self) -> Result<(), Error> {
        let (name, force) = (self.connection.token_name(), self.args.force_conflicts);
        progress(&format!(
            "target: Role {name} with its binding, by which the source renews its token"
        ));
        let connection = &self.connection;
        self.target.apply::<Role>(&connection.role(), force).await?;
        let binding = connection.role_binding();
        self.target.apply::<RoleBinding>(&binding, force).await?;
        Ok(())
    }

    /// A token that ends.
    async fn ending(&self, life: TokenLife) -> Result<String, Error> {
        let name = &self.connection.source_name;
        let accounts: Api<ServiceAccount> = self.target.api(self.connection.place());
        progress(&format!(
            "target: a token of ServiceAccount {name} for {life}"
        ));
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(life.seconds()),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let asked = accounts.create_token_request(name, &params, &request);
        let answer = within(CALL_LIMIT, asked).await;
        let answer = answer.map_err(self.target.failed("get a token"))?;
        let text = answer.status.and_then(|status| status.token);
        text.filter(|text| !text.is_empty()).ok_or_else(|| {
            self.late(
                format!("the target has made no token of ServiceAccount {name}"),
                "its answer has none".to_owned(),
                "give the same command again",
            )
        })
    }

    /// A token without an end. The right to renew one goes, if it is there: nobody needs it.
    async fn endless(&self) -> Result<String, Error> {
        undo::renewal(&self.target, &self.connection).await?;
        let name = self.connection.token_name();
        let secrets: Api<Secret> = self.target.api(self.connection.place());
        progress(&format!("target: Secret {name} with a token"));
        let text = |secret: &Secret| {
            let token = secret.data.as_ref()?.get("token")?;
            String::from_utf8(token.0.clone())
                .ok()
                .filter(|it| !it.is_empty())
        };
        self.target
            .apply::<Secret>(&self.connection.token(), self.args.force_conflicts)
            .await?;
        let look = |secret: Option<&Secret>| {
            if secret.and_then(text).is_some() {
                return Shows::Done;
            }
            Shows::Yet(
                if secret.is_some() {
                    "it is empty"
                } else {
                    "it was deleted"
                }
                .to_owned(),
            )
        };
        let waited = wait::until(secrets.clone(), &name, self.args.timeout, look).await;
        waited.map_err(|last| {
            let what = format!("Kubernetes has put no token into Secret {name} of the target");
            self.late(
                what,
                last,
                "see whether its kube-controller-manager runs, and give the same command again",
            )
        })?;
        let secret = within(CALL_LIMIT, secrets.get(&name)).await;
        let secret = secret.map_err(self.target.failed("read the token"))?;
        text(&secret).ok_or_else(|| {
            let what = format!("the token in Secret {name} of the target went away");
            self.late(
                what,
                "it is empty".to_owned(),
                "give the same command again",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_back_has_a_token_that_is_good() {
        let token = |void: Option<&str>| Token {
            text: "new".to_owned(),
            void: void.map(str::to_owned),
        };
        let back = |void, kubeconfig| token(void).in_place_of_the_old_one(kubeconfig);
        assert_eq!(back(None, "{token: old}"), "{token: old}");
        assert_eq!(back(Some("old"), "{token: old}"), "{token: new}");
        assert_eq!(
            back(Some("old"), "{token: of-another-source}"),
            "{token: of-another-source}"
        );
    }
}
