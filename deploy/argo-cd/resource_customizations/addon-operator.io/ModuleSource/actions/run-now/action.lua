local os = require("os")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["reconcile.addon-operator.io/requestedAt"] = "By Argo CD at: " .. os.date("!%Y-%m-%dT%XZ")
return obj
