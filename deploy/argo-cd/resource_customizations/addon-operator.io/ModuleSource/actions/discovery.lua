local actions = {}
actions["run-now"] = {disabled = obj.metadata.deletionTimestamp ~= nil}
return actions
